package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file chooses between several connections to a member, as when two members dial each other
// at once. [election.Connection] has the rule, for production and for the lab. A connection out
// of use ends after it has been idle, at each end separately.

// usage is an end's state of an open connection.
type usage struct {
	rank    election.Rank // of the other side, as it presented itself
	order   uint64        // position in the order of opening
	retired bool          // not in use
	idleAt  time.Duration // when it ends if it is retired and idle, in own time
}

func (e *endpoint) connection() election.Connection {
	return election.Connection{Dialed: e.side == 0, Order: e.order}
}

// inUse returns the open connection that p uses to a member; nil: there is none.
func (w *wires) inUse(p *process, slot int) (used *endpoint) {
	peer := w.procs[slot].rank.ID
	for _, e := range p.peers[slot].ends {
		if e.state == open && (used == nil || e.connection().Over(used.connection(), p.rank.ID, peer)) {
			used = e
		}
	}
	return used
}

// choose retires all connections to a member except the used one, and ends the oldest retired
// connection if there are too many.
func (w *wires) choose(p *process, slot int) {
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

func (w *wires) retire(e *endpoint, on bool) {
	if e.retired == on {
		return
	}
	if e.retired = on; on {
		w.idles(e)
		w.awaitIdle(e, e.proc.clock.when(e.idleAt))
	}
}

// idles starts the idle time again, after a message or a retirement.
func (w *wires) idles(e *endpoint) {
	e.idleAt = e.proc.clock.at(w.now) + w.setup.Timing.IdleTime()
}

func (w *wires) awaitIdle(e *endpoint, at time.Duration) {
	w.queue.push(occurrence{at: at, kind: idleTimeout, place: e.key(), life: e.life})
}

// give closes a connection.
func (w *wires) give(e *endpoint) {
	e.state = closed
	w.hangUpOn(e, false)
}
