//go:build !windows

package transport

import "syscall"

// canWriteNow is true: a socket accepts what it has room for, without waiting.
const canWriteNow = true

func (w *nowWriter) try(fd uintptr) bool {
	for {
		n, err := write(int(fd), w.data)
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

// try waits for what arrives if there is nothing.
func (r *nowReader) try(fd uintptr) bool {
	for {
		n, err := read(int(fd), r.data)
		if err == syscall.EINTR {
			continue
		}
		r.n, r.err = n, err
		return err != syscall.EAGAIN
	}
}
