package run

import "time"

// instant is a reading of the clock that runs while the machine is suspended too, and that
// nothing slews, where there is one, in nanoseconds since some start that all processes of a
// machine share. A lease is told as one, so that time that a renewal spent waiting does not
// count as renewed.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(earlier instant) time.Duration { return time.Duration(i - earlier) }
