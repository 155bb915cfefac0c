package run

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is a reading of the clock that runs while the machine is suspended too,
// where there is one, in nanoseconds since some start that all processes of a machine
// share. A lease is told as one, so that time that a renewal spent waiting does not
// count as renewed.
type instant int64

func now() instant {
	var t unix.Timespec
	if err := unix.ClockGettime(clockID, &t); err != nil {
		panic("the kernel's clock cannot be read: " + err.Error()) // no system has none
	}
	return instant(t.Nano())
}

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(earlier instant) time.Duration { return time.Duration(i - earlier) }
