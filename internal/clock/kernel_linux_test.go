package clock

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// System and Boot go by the kernel's clock that nothing slews, to the nanosecond.
func TestTheKernelsClockThatNothingSlews(t *testing.T) {
	origin := show(unix.CLOCK_MONOTONIC_RAW)
	read, most := System(), time.Duration(0)
	began := show(unix.CLOCK_MONOTONIC_RAW)
	for range 1000 {
		before := show(unix.CLOCK_MONOTONIC_RAW)
		awake, boot := read().Awake, Boot()
		after := show(unix.CLOCK_MONOTONIC_RAW)
		if awake < before-began || awake > after-origin {
			t.Fatalf("the source shows %v, want from %v to %v", awake, before-began, after-origin)
		}
		asleep := suspended() + time.Millisecond // of which Boot may have seen more than a reading that is held up
		if boot < before+most || boot > after+max(asleep, most+time.Millisecond) {
			t.Fatalf("Boot shows %v, want from %v to %v and the time in suspension, %v", boot, before, after, asleep)
		}
		most = time.Duration(slept.Load())
	}
}
