package quorum

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file monitors the assumption that no two clocks differ in rate by more than the drift.
// Heartbeats carry the time of the leader, and acks the time of the follower. A message can be
// delayed by the network but never early. So the least delayed message of a window shows the offset
// between the clocks, except for what the fastest route has changed since, which t_max bounds.

// pace compares a peer's clock with this member's clock, window by window.
type pace struct {
	began   time.Time     // of the window; zero: nothing is known
	least   time.Duration // the smallest lead of this clock in this window
	last    time.Duration // in the window before
	before  bool          // there was a window before
	strikes int           // consecutive windows with more drift than allowed, in the same direction
	warned  bool
}

// while is the length of a window.
const while = 30 * time.Second

// compare records the time its that a peer's clock showed when a message was sent.
func (c *crew) compare(p *peer, its int64) {
	k, ahead := &p.pace, time.Duration(c.stamp()-its)
	if k.began.IsZero() {
		k.began, k.least = c.now, ahead
		return
	}
	k.least = min(k.least, ahead)
	span := c.now.Sub(k.began)
	if span < while {
		return
	}
	if k.before {
		c.judge(p, k.least-k.last, span)
	}
	k.began, k.last, k.least, k.before = c.now, k.least, ahead, true
}

// judge warns, once, about a clock whose rate differs by more than the configured drift. A
// difference in a single window is a jump, not a rate.
func (c *crew) judge(p *peer, gained, span time.Duration) {
	k := &p.pace
	far := max(gained, -gained)
	switch {
	case far <= c.timing.TMax+time.Duration(float64(span)*c.algorithm.drift):
		k.strikes = 0
	case gained > 0:
		k.strikes = max(k.strikes, 0) + 1
	default:
		k.strikes = min(k.strikes, 0) - 1
	}
	if k.warned || k.strikes > -strikes && k.strikes < strikes {
		return
	}
	k.warned = true
	how := "slower"
	if gained < 0 {
		how = "faster"
	}
	c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("the clock of member %s runs %.1f %% %s than this member's, and quorum.Drift allows %.1f %%: while it does, one leader is not sure; mend that member's clock, or this one's",
		p.rank.ID, 100*float64(far)/float64(span), how, 100*c.algorithm.drift)})
}

// strikes is how many consecutive windows it takes for a warning.
const strikes = 2

// forgetPaces discards all measurements, after a clock jumped or a process was stopped.
func (c *crew) forgetPaces() {
	for i := range c.peers {
		c.peers[i].pace = pace{warned: c.peers[i].pace.warned}
	}
}
