package clock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/clock"
)

const leap = 600 * time.Millisecond

// hand is clocks that the test sets.
type hand struct{ clock.Reading }

func (h *hand) read() clock.Reading { return h.Reading }

// passes lets the same time pass on both clocks.
func (h *hand) passes(d time.Duration) {
	h.Awake += d
	h.Wall = h.Wall.Add(d)
}

func TestWhatCountsAsTimeThatHasPassed(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(h *hand)
		want time.Duration
	}{
		"time passes":              {func(h *hand) { h.passes(time.Second) }, time.Second},
		"the machine is suspended": {func(h *hand) { h.Asleep += 10 * time.Minute; h.Wall = h.Wall.Add(10 * time.Minute) }, 10 * time.Minute},
		"suspended, and the wall clock set right later": {func(h *hand) { h.Asleep += time.Minute }, time.Minute},
		"a virtual machine is paused":                   {func(h *hand) { h.Wall = h.Wall.Add(10 * time.Minute) }, 10 * time.Minute},
		"the wall clock is set ahead by leap":           {func(h *hand) { h.Wall = h.Wall.Add(leap) }, 0},
		"ahead by more":                                 {func(h *hand) { h.Wall = h.Wall.Add(leap + 1) }, leap + 1},
		"back by an hour":                               {func(h *hand) { h.Wall = h.Wall.Add(-time.Hour) }, 0},
		"ahead while the process was held up":           {func(h *hand) { h.Wall, h.Torn = h.Wall.Add(time.Hour), true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h := &hand{clock.Reading{Wall: time.Unix(1e9, 0), Awake: time.Hour, Asleep: time.Minute}}
			c := clock.New(h.read, leap)
			if got := c.Now(); got != 0 {
				t.Fatalf("a new clock stands at %v", got)
			}
			tt.do(h)
			if got := c.Now(); got != tt.want {
				t.Errorf("%v have passed, want %v", got, tt.want)
			}
			h.passes(time.Second)
			if got := c.Now(); got != tt.want+time.Second && !h.Torn {
				t.Errorf("a second later %v have passed", got)
			}
		})
	}
}

// Awake counts neither suspension nor leaps.
func TestAwake(t *testing.T) {
	h := &hand{clock.Reading{Wall: time.Unix(1e9, 0), Awake: time.Hour}}
	c := clock.New(h.read, leap)
	h.passes(time.Second)
	h.Wall, h.Asleep = h.Wall.Add(time.Hour), time.Minute
	if got := c.Awake(); got != time.Second {
		t.Errorf("it was awake for %v, want a second", got)
	}
}

// Small steps do not add up, and one back does not hide a later one ahead.
func TestStepsOfTheWallClock(t *testing.T) {
	h := &hand{clock.Reading{Wall: time.Unix(1e9, 0)}}
	c := clock.New(h.read, leap)
	for range 10 {
		h.Wall = h.Wall.Add(leap)
		if got := c.Now(); got != 0 {
			t.Fatalf("%v have passed", got)
		}
	}
	h.Wall = h.Wall.Add(-time.Hour)
	c.Now()
	h.Wall = h.Wall.Add(time.Hour)
	if got := c.Now(); got != time.Hour || c.Leapt() != time.Hour {
		t.Errorf("%v have passed, %v by leaps, want an hour", got, c.Leapt())
	}
}

// A wall clock that is read late, and right, tells of the leap all the same.
func TestATornReadingHidesNoLeap(t *testing.T) {
	h := &hand{clock.Reading{Wall: time.Unix(1e9, 0)}}
	c := clock.New(h.read, leap)
	h.Wall, h.Torn = h.Wall.Add(time.Hour), true
	c.Now()
	h.Torn = false
	if got := c.Now(); got != time.Hour {
		t.Errorf("%v have passed, want an hour", got)
	}
}

func TestItNeverRunsBackwards(t *testing.T) {
	h := &hand{clock.Reading{Awake: time.Minute}}
	c := clock.New(h.read, leap)
	h.passes(time.Second)
	c.Now()
	h.Awake -= time.Millisecond
	if got := c.Now(); got != time.Second {
		t.Errorf("it stands at %v, and stood at a second", got)
	}
}

// The system's clocks agree with Go's, in a test's virtual time too.
func TestSystem(t *testing.T) {
	c := clock.New(clock.System(), leap)
	began := time.Now()
	for time.Since(began) < 20*time.Millisecond {
		before := time.Since(began)
		if got := c.Now(); got < before {
			t.Fatalf("%v have passed, and it says %v", before, got)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c := clock.New(clock.System(), leap)
		time.Sleep(time.Hour)
		if got := c.Now(); got != time.Hour {
			t.Errorf("%v have passed, want an hour of virtual time", got)
		}
	})
}

func BenchmarkNow(b *testing.B) {
	c := clock.New(clock.System(), leap)
	for b.Loop() {
		c.Now()
	}
}
