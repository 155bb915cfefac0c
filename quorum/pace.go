package quorum

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file watches the one assumption: that no two clocks differ in rate by more than
// the drift. Beats carry the time of the leader that sends them, acks that of the member
// that answers. A message is late by what the network takes, never early: so of a while's
// messages the least late tells how the clocks stand to each other, but for what the
// fastest way through the network has changed since, which t_max bounds.

// pace compares another member's clock with this one's, one while after another.
type pace struct {
	began   time.Time     // the while; zero: nothing is known
	least   time.Duration // by how much this clock was ahead, at the least, in this while
	last    time.Duration // in the one before
	before  bool          // there was one before
	strikes int           // whiles in a row that gained more than they may, on one side
	warned  bool
}

// while is for how long the least late message is looked for.
const while = 30 * time.Second

// compare takes in that another's clock showed its when a message left.
func (c *Core) compare(p *peer, its int64) {
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

// judge warns, once, of a clock that differs in rate by more than was said. What was
// gained in one while alone is a leap, not a rate.
func (c *Core) judge(p *peer, gained, span time.Duration) {
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

// strikes is how many whiles in a row it takes.
const strikes = 2

// forgetPaces is for a clock that has leapt, or a process that was stopped.
func (c *Core) forgetPaces() {
	for i := range c.peers {
		c.peers[i].pace = pace{warned: c.peers[i].pace.warned}
	}
}
