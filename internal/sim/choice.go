package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file says which of several connections to a member is used: two that dial each
// other at once have two. [election.Connection] has the rule, for production and for the
// lab; what is not used any more ends once it has been idle, at each end for itself.

// stands is what one end of a connection knows of it, once it stands.
type stands struct {
	rank    election.Rank // of the other side, as it presented itself
	order   uint64        // in which it came to stand
	retired bool          // another is used
	idleAt  time.Duration // in own time: when it ends if nothing comes and it is still retired
}

func (e *endpoint) connection() election.Connection {
	return election.Connection{Dialed: e.side == 0, Order: e.order}
}

// inUse is the connection that p uses to a member, of those that stand; nil: none does.
func (w *world) inUse(p *process, slot int) (used *endpoint) {
	peer := w.procs[slot].rank.ID
	for _, e := range p.peers[slot].ends {
		if e.state == open && (used == nil || e.connection().Over(used.connection(), p.rank.ID, peer)) {
			used = e
		}
	}
	return used
}

// choose retires all connections to a member but the one in use, and ends the oldest of
// them when there are too many.
func (w *world) choose(p *process, slot int) {
	used := w.inUse(p, slot)
	var oldest *endpoint
	n := 0
	for _, e := range p.peers[slot].ends {
		if e.state != open {
			continue
		}
		n++
		w.retire(e, e != used)
		if e != used && (oldest == nil || e.order < oldest.order) {
			oldest = e
		}
	}
	if n > election.MaxConnections {
		w.give(oldest)
	}
	w.tidy(p, slot)
}

func (w *world) retire(e *endpoint, on bool) {
	if e.retired == on {
		return
	}
	if e.retired = on; on {
		w.idles(e)
		w.awaitIdle(e, e.proc.clock.when(e.idleAt))
	}
}

// idles notes that something has come, or that the wait for it begins.
func (w *world) idles(e *endpoint) {
	e.idleAt = e.proc.clock.at(w.now) + w.setup.Timing.IdleTime()
}

func (w *world) awaitIdle(e *endpoint, at time.Duration) {
	w.queue.push(occurrence{at: at, kind: idleTimeout, place: e.place(), life: e.life})
}

// idleTimedOut ends a retired connection on which nothing has come for long enough. A
// process that was stopped reads first what has come meanwhile.
func (w *world) idleTimedOut(e *endpoint) {
	switch p := e.proc; {
	case e.state != open || !e.retired || e.life != p.life:
	case p.condition == scenario.Frozen:
		w.awaitIdle(e, w.now+w.setup.Timing.TMax)
	case p.clock.at(w.now) < e.idleAt:
		w.awaitIdle(e, p.clock.when(e.idleAt))
	default:
		w.give(e)
		w.tidy(p, e.peer)
	}
}

// give gives a connection up.
func (w *world) give(e *endpoint) {
	e.state = closed
	w.hangUpOn(e, false)
}
