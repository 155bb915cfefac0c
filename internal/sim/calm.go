package sim

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file remembers what was disturbed when: most rules hold in calm alone.

// pairsUpTo bounds the clusters whose pairs are watched one by one.
const pairsUpTo = 64

// disturbed takes note that something has happened to a member's connections.
func (c *history) disturbed(w *world, p *process) {
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

// disturbedPair takes note that a member knows another since just now, or no more.
func (c *history) disturbedPair(w *world, p *process, other int) {
	if len(c.calm) > 0 {
		c.calm[p.slot*c.n+other], c.calm[other*c.n+p.slot] = w.now, w.now
	}
}

// enrolled takes note of whom a process knows from its start.
func (c *history) enrolled(w *world, p *process) {
	for i := range p.peers {
		p.peers[i].known, p.peers[i].since = p.machine.Knows(w.procs[i].rank.ID), w.now
	}
}

// clear says that nothing is and nothing was between two members since then.
func (c *history) clear(w *world, a, b *process, since time.Duration) bool {
	if a == b {
		return true
	}
	if w.doubled(a.slot) || w.doubled(b.slot) {
		return false // either process may be the one that is heard
	}
	if w.roster && !(a.machine.Knows(b.rank.ID) && b.machine.Knows(a.rank.ID)) {
		return false
	}
	return c.calm[a.slot*c.n+b.slot] < since && c.linked(w, a, b, since)
}

// linked says that both live, and what one says reaches the other, since then at
// the latest.
func (c *history) linked(w *world, a, b *process, since time.Duration) bool {
	forth, back := a.slot*c.n+b.slot, b.slot*c.n+a.slot
	return c.whole[forth] < since && !w.net.cut[forth] && !w.net.cut[back] &&
		w.net.delay[forth] == 0 && w.net.delay[back] == 0
}

// everDoubled says that a second process has had this id: the two share no disk, and
// may claim one token where they cannot hear of each other.
func (w *world) everDoubled(slot int) bool {
	return slices.ContainsFunc(w.procs[w.net.n:], func(q *process) bool { return q.slot == slot })
}

// doubled says that a second process has this id.
func (w *world) doubled(slot int) bool {
	return slices.ContainsFunc(w.procs[w.net.n:], func(q *process) bool { return q.slot == slot && q.condition != scenario.Dead })
}

// calmFor says that p and q have both lived for as long as one that has just started
// asks around, or awaits a leader, and announces itself, and that nothing has been
// between them for as long as a healed link may go unnoticed.
func (c *history) calmFor(w *world, p, q *process) bool {
	if w.everDoubled(p.slot) || w.everDoubled(q.slot) {
		return false // either process may be the one that is heard
	}
	born := max(w.born(p), w.born(q))
	return w.now-born >= 3*w.setup.Timing.Bears() && c.linked(w, p, q, max(born, w.now-recovery(w.setup.Timing)))
}

// born is since when a process takes part: who joins asks to be let in first, and then
// leaves it to the others to elect, until a leader over a link that has yet to be made
// would have reached it.
func (w *world) born(p *process) time.Duration {
	if len(p.through) == 0 {
		return p.started
	}
	return p.begunAt + w.setup.Timing.DialTime() + w.setup.Timing.T()
}

// acquainted says that two members have known each other since then. One that was
// dialed before it knew the other refuses, and is dialed again after a pause: that is
// a link that has healed.
func (c *history) acquainted(p, q *process, since time.Duration) bool {
	return p.machine.Knows(q.rank.ID) && q.machine.Knows(p.rank.ID) && c.calm[p.slot*c.n+q.slot] < since
}

// recovery is how long a link that has healed may go unnoticed: the longest pause
// between two dials, the dial, and what the detector takes after it.
func recovery(t election.Timing) time.Duration { return time.Second + 2*t.TMax + 3*t.Bears() }
