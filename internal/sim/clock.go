package sim

import "time"

// epochOfTime is the start of every simulated clock.
var epochOfTime = time.Unix(0, 0).UTC()

// clock is a member's own. It drifts by parts per million, and leaps where a driver detects that
// time has passed unseen.
type clock struct {
	since time.Duration // world time of the last change of rate
	local time.Duration // own time then
	ppm   int64
}

const million = 1_000_000

func (c *clock) at(world time.Duration) time.Duration {
	d := world - c.since
	return c.local + d + d/million*time.Duration(c.ppm) + d%million*time.Duration(c.ppm)/million
}

// when returns the first moment of the world at which the clock shows local or more.
func (c *clock) when(local time.Duration) time.Duration {
	if c.ppm == 0 {
		return c.since + local - c.local
	}
	d := local - c.local
	w := c.since + d - d/million*time.Duration(c.ppm)
	for range 64 { // each turn leaves a millionth of the error
		gap := local - c.at(w)
		if gap == 0 {
			break
		}
		w += gap
	}
	for c.at(w) < local {
		w++
	}
	return w
}

func (c *clock) drift(world time.Duration, ppm int64) {
	c.local, c.since, c.ppm = c.at(world), world, ppm
}

func (c *clock) leap(world, d time.Duration) {
	c.local, c.since = c.at(world)+d, world
}
