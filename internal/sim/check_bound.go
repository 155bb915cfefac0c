package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// boundChecker: queues and messages are bounded.
type boundChecker struct{ *history }

func (c *boundChecker) sends(w *world, p *process, m *election.Message) {
	if !w.quorum && (len(m.States) > len(w.procs) || len(m.Ring) > len(w.procs)) {
		c.fail(w, p, invariant.Bounded, "its %s lists %d members", m.Kind, max(len(m.States), len(m.Ring)))
	}
}

// queued: on the way are three frames a heartbeat of the time that it takes, as with any distance: a beat or
// its acknowledgement, a ping and a pong. What waits beyond that is what its sender has to keep.
func (c *boundChecker) queued(w *world, e *endpoint) {
	if e.in.len() > 256+3*int(e.in.slowest/w.setup.Timing.Heartbeat) {
		c.fail(w, e.other().proc, invariant.Bounded, "%d frames wait on the way to %s", e.in.len(), e.proc.rank.ID)
	}
}
