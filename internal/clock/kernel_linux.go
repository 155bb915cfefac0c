package clock

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel reads the clocks of this machine. A daemon that sets the wall clock slews
// CLOCK_MONOTONIC and CLOCK_BOOTTIME, by up to 10 %. It does not slew CLOCK_MONOTONIC_RAW,
// which stops in suspension. The first two differ by how long that was, however they are slewed.
func kernel() ticks { return ticks{raw: show(unix.CLOCK_MONOTONIC_RAW), asleep: suspended()} }

// suspended is for how long this machine has been suspended since it booted. A
// process that is held up between the two readings sees less, never more.
func suspended() time.Duration { return show(unix.CLOCK_BOOTTIME) - show(unix.CLOCK_MONOTONIC) }

// slept is the longest suspension that Boot has seen.
var slept atomic.Int64

// Boot is how long ago this machine booted, or some moment near that, alike in all its
// processes: by a clock that nothing slews, and that runs while the machine is suspended.
func Boot() time.Duration {
	t := kernel()
	for {
		known := slept.Load()
		if known >= int64(t.asleep) {
			return t.raw + time.Duration(known)
		}
		slept.CompareAndSwap(known, int64(t.asleep))
	}
}

// virtual reports whether Go's time is not the kernel's: in a bubble of testing/synctest it
// stands still while anything runs.
func virtual() bool {
	off := time.Since(time.Unix(0, int64(show(unix.CLOCK_REALTIME))))
	return max(off, -off) > time.Minute
}

func show(id int32) time.Duration {
	var t unix.Timespec
	// The runtime takes no notice of this call; if it did, an idle process would cost more than twice as much.
	if _, _, err := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, uintptr(id), uintptr(unsafe.Pointer(&t)), 0); err != 0 {
		panic("a clock of the kernel cannot be read: " + err.Error()) // every Linux since 2.6.39 has all of them
	}
	return time.Duration(t.Nano())
}
