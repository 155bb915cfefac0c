package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

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
