package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// boundChecker checks that queues and messages are bounded.
type boundChecker struct{ *history }

func (c *boundChecker) sends(w *scene, p *process, m *election.Message) {
	if !w.quorum && (len(m.States) > len(w.procs) || len(m.Ring) > len(w.procs)) {
		c.fail(w, p, invariant.Bounded, "its %s lists %d members", m.Kind, max(len(m.States), len(m.Ring)))
	}
}

// queued checks the frames on the way to e: at most three for each heartbeat of the latency (a
// heartbeat or its acknowledgement, a ping, a pong), and 256. Its sender has to keep the rest.
func (c *boundChecker) queued(w *scene, e *endpoint) {
	if e.in.size() > 256+3*int(e.in.slowest/w.setup.Timing.Heartbeat) {
		c.fail(w, e.far().proc, invariant.Bounded, "%d frames wait on the way to %s", e.in.size(), e.proc.rank.ID)
	}
}
