//go:build !windows

package transport

import "syscall"

// canWriteNow says that a socket takes what there is room for, without waiting.
const canWriteNow = true

func (w *nowWriter) try(fd uintptr) bool {
	for {
		n, err := syscall.Write(int(fd), w.data)
		if err == syscall.EINTR {
			continue
		}
		w.n = max(n, 0)
		if err != nil && err != syscall.EAGAIN {
			w.err = err
		}
		return true // done for now, whatever it took
	}
}
