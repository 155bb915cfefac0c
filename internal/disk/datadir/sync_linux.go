package datadir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// SyncData returns once what was written into f survives a power cut. It leaves out the file's
// times, which cost a write of their own.
func SyncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
