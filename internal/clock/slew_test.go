package clock

import (
	"testing"
	"time"
)

// A daemon that sets the wall clock may slew the clocks that Go reads by some 8 %. Time is
// counted by the one that nothing slews: here it runs as the test has it run.
func TestTimeIsCountedByTheClockThatNothingSlews(t *testing.T) {
	var shown ticks
	c := New(system(func(bool) ticks { return shown }), time.Hour)
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
	c := New(system(nil), time.Hour)
	began := time.Now()
	for time.Since(began) < time.Millisecond {
		before := time.Since(began)
		if got := c.Now(); got < before {
			t.Fatalf("%v have passed, and it says %v", before, got)
		}
	}
}
