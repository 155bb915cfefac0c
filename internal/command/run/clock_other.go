//go:build !linux

package run

import "golang.org/x/sys/unix"

// now stands still in suspension: the wall clock tells of that.
func now() instant {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic("the kernel's clock cannot be read: " + err.Error()) // no system has none
	}
	return instant(t.Nano())
}
