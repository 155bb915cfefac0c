// Package clock measures elapsed time, including time in which a process did not run: it was
// stopped, its machine was suspended, or its virtual machine was paused.
package clock

import (
	"sync"
	"time"
)

// Reading is the state of a machine's clocks at the same moment.
type Reading struct {
	Wall   time.Time     // the date and time of day
	Awake  time.Duration // since some moment, without suspension; by a clock that is not slewed, if there is such a clock
	Asleep time.Duration // duration of suspension since some moment
	Torn   bool          // the process was held up between two of the clocks: Wall does not match the rest
}

// Source reads the clocks. It must not be called concurrently.
type Source func() Reading

// Clock measures elapsed time, and never runs backwards. Its methods may be called from any
// goroutine.
//
// The clocks of a paused virtual machine do not advance. Afterwards only the wall clock shows the
// pause, once that is set right: it has run ahead of the rest. If it is ahead by more than leap,
// that counts as elapsed time. A smaller step of the wall clock, or a step back, does not count.
type Clock struct {
	read Source
	leap time.Duration

	mu    sync.Mutex
	first Reading
	ahead time.Duration // of the wall clock, at the last reading, since the first
	leapt time.Duration // the sum of its leaps
	last  time.Duration
	awake time.Duration // the last result of Awake
}

// New returns a clock that shows zero.
func New(read Source, leap time.Duration) *Clock {
	return &Clock{read: read, leap: leap, first: read()}
}

// Now returns the time since New.
func (c *Clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.read()
	passed := r.Awake - c.first.Awake + r.Asleep - c.first.Asleep
	if !r.Torn {
		ahead := r.Wall.Sub(c.first.Wall) - passed
		if step := ahead - c.ahead; step > c.leap {
			c.leapt += step
		}
		c.ahead = ahead
	}
	c.last = max(c.last, passed+c.leapt)
	return c.last
}

// Awake returns how much of the time since New the machine was not suspended, without leaps.
func (c *Clock) Awake() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awake = max(c.awake, c.read().Awake-c.first.Awake)
	return c.awake
}

// Leapt returns how far the wall clock has run ahead by leaps, as of the last Now.
func (c *Clock) Leapt() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leapt
}

// Two readings of the same clock that differ by more than tight were not at the same moment; after
// that many attempts the reading is torn. A suspension shorter than nap is noise. It also moves the
// wall clock against Go's: the kernel is asked for it only then, and glance after it last was.
const (
	tight    = time.Millisecond
	attempts = 5
	nap      = 10 * time.Millisecond
	glance   = nap
)

// System reads the clocks of this machine. On Linux it uses a clock that no daemon slews. Elsewhere
// it uses Go's monotonic clock, which the system may slew, and suspension shows as a leap of the
// wall clock.
func System() Source { return system(kernel, time.Now) }

// ticks is a reading of the kernel's clocks.
type ticks struct {
	raw    time.Duration // the counter: never set nor slewed
	asleep time.Duration // duration of suspension
}

// stepped reports whether the wall clock was set, or the machine suspended, between two moments.
func stepped(from, to time.Time) bool {
	step := to.Round(0).Sub(from.Round(0)) - to.Sub(from)
	return max(step, -step) > tight
}

// system reads Go's clock by now, and the kernel's clocks by read, which may omit asleep unless it is to
// look; nil: every clock is slewed.
func system(read func(look bool) ticks, now func() time.Time) Source {
	origin, base, asleep := now(), ticks{}, time.Duration(0)
	steady := read != nil && !virtual()
	if !steady { // of virtual time the kernel's clocks show nothing
		read = func(bool) ticks { return ticks{} }
	}
	base = read(true)
	looked := origin
	return func() Reading {
		for attempt := 1; ; attempt++ {
			before := now()
			look := before.Sub(looked) >= glance || stepped(looked, before)
			k := read(look)
			if look {
				looked = before
			}
			if s := k.asleep - base.asleep; s > asleep+nap {
				asleep = s
			}
			after := now()
			torn := after.Sub(before) > tight || stepped(before, after)
			if !torn || attempt == attempts {
				awake := after.Sub(origin)
				if steady {
					awake = k.raw - base.raw
				}
				return Reading{Wall: after.Round(0), Awake: awake, Asleep: asleep, Torn: torn}
			}
		}
	}
}
