package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// tellChecker checks that a leader reports its loss before it sends a message that reveals it.
type tellChecker struct{ *history }

func (c *tellChecker) sends(w *scene, p *process, m *election.Message) {
	if p.view.Leader.ID == p.rank.ID && invariant.GivesAway(p.view, m) {
		c.fail(w, p, invariant.Tells, "it sends a %s of %v while its watchers have it lead as %v", m.Kind, m.Token, p.view)
	}
}
