// Package clock tells how much time has passed, for whatever reason a process did
// not see it pass: it was stopped, its machine was suspended, or its virtual machine
// was paused.
package clock

import (
	"sync"
	"time"
)

// Reading is what the clocks of a machine show at one moment.
type Reading struct {
	Wall   time.Time     // what the calendar says
	Awake  time.Duration // since some moment, without the time that the machine was suspended; by a clock that is not slewed, if there is one
	Asleep time.Duration // for how long it was suspended, since some moment
	Torn   bool          // the process was held up between reading one clock and another: Wall does not go with the rest
}

// Source reads the clocks. One goroutine at a time calls it.
type Source func() Reading

// Clock counts the time that passes, and never runs backwards. Its methods may be
// called from any goroutine.
//
// A paused virtual machine sees no time pass; after it, all that tells is the wall
// clock, once that is set right: it has run ahead of the others. By more than leap
// that counts as time that has passed. A smaller step of the wall clock, or one
// back, counts as nothing.
type Clock struct {
	read Source
	leap time.Duration

	mu    sync.Mutex
	first Reading
	ahead time.Duration // of the wall clock, at the last reading, since the first
	leapt time.Duration // how far it has run ahead by leaps, all told
	last  time.Duration
	awake time.Duration // the last that Awake gave
}

// New gives a clock that stands at zero.
func New(read Source, leap time.Duration) *Clock {
	return &Clock{read: read, leap: leap, first: read()}
}

// Now is how much time has passed since New.
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

// Awake is how much of the time since New has passed while the machine was not suspended,
// without leaps.
func (c *Clock) Awake() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awake = max(c.awake, c.read().Awake-c.first.Awake)
	return c.awake
}

// Leapt is how far the wall clock has run ahead by leaps, as of the last Now.
func (c *Clock) Leapt() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.leapt
}

// Two readings of one clock that are further apart than tight were not one moment;
// after so many attempts the reading is torn. A suspension shorter than nap is noise.
const (
	tight    = time.Millisecond
	attempts = 5
	nap      = 10 * time.Millisecond
)

// System reads the clocks of this machine. On Linux time is counted by a clock that no
// daemon slews. Elsewhere it is Go's monotonic clock, which the system may slew, and
// suspension shows as a leap of the wall clock.
func System() Source { return system(kernel) }

// ticks is what the kernel's clocks show.
type ticks struct {
	raw    time.Duration // by the counter alone: nothing sets it, nothing slews it
	asleep time.Duration // for how long the machine has been suspended
}

// system reads Go's clock, and the kernel's by read; nil: there is none that is not slewed.
func system(read func() ticks) Source {
	origin, base, asleep := time.Now(), ticks{}, time.Duration(0)
	steady := read != nil && !virtual()
	if read == nil {
		read = func() ticks { return ticks{} }
	}
	base = read()
	return func() Reading {
		for attempt := 1; ; attempt++ {
			before := time.Now()
			k := read()
			if s := k.asleep - base.asleep; s > asleep+nap {
				asleep = s
			}
			now := time.Now()
			torn := now.Sub(before) > tight
			if !torn || attempt == attempts {
				awake := now.Sub(origin)
				if steady {
					awake = k.raw - base.raw
				}
				return Reading{Wall: now.Round(0), Awake: awake, Asleep: asleep, Torn: torn}
			}
		}
	}
}
