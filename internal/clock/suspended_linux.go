package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended is for how long this machine has been suspended since it booted. A
// process that is held up between the two readings sees less, never more.
func suspended() time.Duration {
	return since(unix.CLOCK_BOOTTIME) - since(unix.CLOCK_MONOTONIC)
}

func since(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic("a clock of the kernel cannot be read: " + err.Error()) // every Linux since 2.6.39 has both
	}
	return time.Duration(t.Nano())
}
