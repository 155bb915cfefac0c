package run

import (
	"bytes"
	"encoding/json"
	"syscall"

	"golang.org/x/sys/unix"
)

// inbox receives a guard's orders, a line each. It is read without waiting, so that its reader can
// detect that it has read all orders that had arrived.
type inbox struct {
	fd   int
	part []byte // an incomplete line
}

// watch sends to wake whenever there is input, or the sender has closed its end.
func (b *inbox) watch(wake chan<- struct{}) {
	for {
		if b.ready(-1) {
			wake <- struct{}{}
		}
	}
}

// ready reports whether there is input, after waiting for timeout (ms; -1: without limit).
func (b *inbox) ready(timeout int) bool {
	fds := []unix.PollFd{{Fd: int32(b.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, timeout)
		if err == unix.EINTR && timeout == 0 {
			continue
		}
		return err == nil && n > 0
	}
}

// take reads the orders that have arrived. If open is false there are no more: the sender has
// closed its end, or sent something that is no order.
func (b *inbox) take() (orders []order, open bool) {
	for open = true; open && b.ready(0); {
		buffer := make([]byte, 4096)
		n, err := syscall.Read(b.fd, buffer)
		if err == syscall.EINTR {
			continue
		}
		open = err == nil && n > 0
		b.part = append(b.part, buffer[:max(n, 0)]...)
	}
	for {
		line, rest, whole := bytes.Cut(b.part, []byte("\n"))
		if !whole {
			return orders, open
		}
		b.part = rest
		var o order
		if json.Unmarshal(line, &o) != nil {
			return orders, false
		}
		orders = append(orders, o)
	}
}
