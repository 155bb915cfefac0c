package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file records when links and members were disturbed: most rules hold only without faults.

// pairsUpTo is the largest cluster whose pairs are recorded separately.
const pairsUpTo = 64

// disturbed records that a member's connections were disturbed.
func (c *history) disturbed(w *scene, p *process) {
	c.fault = w.now
	c.disturbedAt(p, w.now)
}

func (c *history) disturbedAt(p *process, at time.Duration) {
	if len(c.calm) == 0 {
		return
	}
	for i := range c.n {
		for _, since := range [...][]time.Duration{c.calm, c.whole} {
			forth, back := &since[p.slot*c.n+i], &since[i*c.n+p.slot]
			*forth, *back = max(*forth, at), max(*back, at)
		}
	}
}

// disturbedPair records that p has just added or dropped a member.
func (c *history) disturbedPair(w *scene, p *process, other int) {
	if len(c.calm) > 0 {
		c.calm[p.slot*c.n+other], c.calm[other*c.n+p.slot] = w.now, w.now
	}
}

// enrolled records which members a process has on its list at its start.
func (c *history) enrolled(w *scene, p *process) {
	for i := range p.peers {
		p.peers[i].known, p.peers[i].since = p.machine.Knows(w.procs[i].rank.ID), w.now
	}
}

// clear reports whether two members have been able to reach each other since then, undisturbed.
func (c *history) clear(w *scene, a, b *process, since time.Duration) bool {
	if a == b {
		return true
	}
	if w.doubled(a.slot) || w.doubled(b.slot) {
		return false // the messages may come from either process
	}
	if w.roster && !(a.machine.Knows(b.rank.ID) && b.machine.Knows(a.rank.ID)) {
		return false
	}
	return c.calm[a.slot*c.n+b.slot] < since && c.linked(w, a, b, since)
}

// linked reports whether messages have passed between two members in both directions since then,
// undisturbed.
func (c *history) linked(w *scene, a, b *process, since time.Duration) bool {
	forth, back := a.slot*c.n+b.slot, b.slot*c.n+a.slot
	return c.whole[forth] < since && !w.net.cut[forth] && !w.net.cut[back] &&
		w.net.delay[forth] == 0 && w.net.delay[back] == 0
}

// calmFor reports whether p and q have been alive and connected for long enough to agree. The
// time of a start includes asking around, or waiting for a leader, and the announcement. A
// healed link counts only after the time for which it may go unnoticed.
func (c *history) calmFor(w *scene, p, q *process) bool {
	if w.everDoubled(p.slot) || w.everDoubled(q.slot) {
		return false // the messages may come from either process
	}
	born := max(w.born(p), w.born(q))
	return w.now-born >= 3*w.setup.Timing.Bears() && c.linked(w, p, q, max(born, w.now-recovery(w.setup.Timing)))
}

// acquainted reports whether two members have had each other on their lists since then. A member
// refuses a process that is not on its list, which dials again after a pause, as after a heal.
func (c *history) acquainted(p, q *process, since time.Duration) bool {
	return p.machine.Knows(q.rank.ID) && q.machine.Knows(p.rank.ID) && c.calm[p.slot*c.n+q.slot] < since
}

// recovery returns how long a healed link may go unnoticed: the longest pause between two dials,
// the dial, and the time of the detector.
func recovery(t election.Timing) time.Duration { return time.Second + 2*t.TMax + 3*t.Bears() }
