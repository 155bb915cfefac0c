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

// driverChecker checks that a Machine asks its driver only for what can be done.
type driverChecker struct{ *history }

func (c *driverChecker) saves(w *scene, p *process, _ election.Token) {
	if p.disk.saving {
		c.fail(w, p, invariant.Driver, "it saves while a save is outstanding")
	}
}

// reaches checks that a member dials only members that were added, and removed ones: a driver
// has no further addresses.
func (c *driverChecker) reaches(w *scene, p *process, slot int) {
	if w.roster && !p.peers[slot].known && !p.removed(w.procs[slot]) {
		c.fail(w, p, invariant.Driver, "it wants to reach %s, and has not told that it was added", w.procs[slot].rank.ID)
	}
}

// lowerChecker checks that no member acts on a lower token than its own.
type lowerChecker struct{ *history }

func (c *lowerChecker) received(w *scene, p *process, m *election.Message, actions []election.Action) {
	s := &c.places[p.place]
	if s.wasDue || m.Kind != election.Beat && m.Kind != election.Coordinator {
		return
	}
	if !m.Token.Defined() || !s.held.Above(m.Token) { // a ring names its winner before the winner has an epoch
		return
	}
	for i := range actions {
		a := &actions[i]
		yields := p.unhealthy && a.Kind == election.NotifyLost && a.Cause == election.CauseResigned // to any that is healthy
		if (a.Kind == election.NotifyElected || a.Kind == election.NotifyLost) && !yields {
			c.fail(w, p, invariant.Lower, "it holds %v and acts on a %s of %v", s.held, m.Kind, m.Token)
		}
	}
}

// tellChecker checks that a leader reports its loss before it sends a message that reveals it.
type tellChecker struct{ *history }

func (c *tellChecker) sends(w *scene, p *process, m *election.Message) {
	if p.view.Leader.ID == p.rank.ID && invariant.GivesAway(p.view, m) {
		c.fail(w, p, invariant.Tells, "it sends a %s of %v while its watchers have it lead as %v", m.Kind, m.Token, p.view)
	}
}
