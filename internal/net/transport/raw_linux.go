package transport

import (
	"syscall"
	"unsafe"
)

// read and write are the calls of the kernel for sockets that do not block. The runtime takes
// no notice of them. Of every other call it does, and wakes a thread that then looks every
// 20 µs what goes on: with heartbeats of a few ms that was most of the cost of an idle process.
func read(fd int, b []byte) (int, error)  { return raw(syscall.SYS_READ, fd, b) }
func write(fd int, b []byte) (int, error) { return raw(syscall.SYS_WRITE, fd, b) }

func raw(call uintptr, fd int, b []byte) (int, error) {
	n, _, err := syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	if err != 0 {
		return 0, err
	}
	return int(n), nil
}
