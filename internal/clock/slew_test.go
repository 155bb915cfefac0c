package clock

import (
	"testing"
	"time"
	"unsafe"
)

// A daemon that sets the wall clock may slew the clocks that Go reads by some 8 %. Time is
// counted by the one that nothing slews: here it runs as the test has it run.
func TestTimeIsCountedByTheClockThatNothingSlews(t *testing.T) {
	var shown ticks
	c := New(system(func(bool) ticks { return shown }, time.Now), time.Hour)
	for _, step := range []ticks{{raw: 550 * time.Millisecond}, {raw: 50 * time.Millisecond}, {asleep: time.Minute}} {
		shown.raw += step.raw
		shown.asleep += step.asleep
		if step.asleep > 0 {
			time.Sleep(glance) // a suspension that the wall clock does not show
		}
		if got := c.Now(); got != shown.raw+shown.asleep {
			t.Errorf("%v have passed, and %v on that clock with the time in suspension", got, shown.raw+shown.asleep)
		}
	}
}

// Where there is no such clock Go's own counts.
func TestWithoutSuchAClockGoCounts(t *testing.T) {
	c := New(system(nil, time.Now), time.Hour)
	began := time.Now()
	for time.Since(began) < time.Millisecond {
		before := time.Since(began)
		if got := c.Now(); got < before {
			t.Fatalf("%v have passed, and it says %v", before, got)
		}
	}
}

// A suspension that the wall clock shows counts once, and at the first reading, also if it comes within a reading.
func TestASuspensionThatTheWallClockShows(t *testing.T) {
	for name, within := range map[string]bool{"before a reading": false, "within a reading": true} {
		t.Run(name, func(t *testing.T) {
			at, asleep, suspend := time.Now(), time.Duration(0), false
			sleep := func() { at, asleep = ahead(at, time.Minute), time.Minute }
			c := New(system(func(look bool) (k ticks) {
				if look {
					k.asleep = asleep
				}
				if suspend {
					suspend = false
					sleep()
				}
				return k
			}, func() time.Time { return at }), time.Second)
			if suspend = within; !within {
				sleep()
			}
			for range 2 {
				if got := c.Now(); got != time.Minute {
					t.Errorf("%v have passed, want a minute", got)
				}
				at = at.Add(glance)
			}
		})
	}
}

// ahead is a reading of Go's clock in which only the wall clock has run ahead.
func ahead(at time.Time, by time.Duration) time.Time {
	at = at.Add(by)
	*(*int64)(unsafe.Add(unsafe.Pointer(&at), 8)) -= int64(by) // the monotonic clock
	return at
}
