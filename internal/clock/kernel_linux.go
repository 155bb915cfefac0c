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
func kernel(look bool) ticks {
	t := ticks{raw: show(unix.CLOCK_MONOTONIC_RAW)}
	if look {
		t.asleep = suspended()
	}
	return t
}

// suspended returns how long this machine has been suspended since it booted. A process that is
// held up between the two readings gets a smaller value, never a larger.
func suspended() time.Duration { return show(unix.CLOCK_BOOTTIME) - show(unix.CLOCK_MONOTONIC) }

// slept is the longest suspension that Boot has measured.
var slept atomic.Int64

// Boot returns the time since this machine booted, or since some moment near that, which is the
// same for all its processes. The clock is not slewed, and includes suspension.
func Boot() time.Duration {
	t := kernel(true)
	for {
		known := slept.Load()
		if known >= int64(t.asleep) {
			return t.raw + time.Duration(known)
		}
		slept.CompareAndSwap(known, int64(t.asleep))
	}
}

// virtual reports whether Go's time differs from the kernel's: in a bubble of testing/synctest it
// does not advance while a goroutine runs.
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
