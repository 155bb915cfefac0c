package run

import "time"

// instant is a reading of a clock, in nanoseconds since some start that all processes of a machine
// share. The clock includes suspension and is not slewed, if the system has such a clock. A lease
// ends at an instant, so that the time that a renewal waited does not count as renewed.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(earlier instant) time.Duration { return time.Duration(i - earlier) }
