package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// skipChecker checks that epochs are consecutive.
type skipChecker struct{ *history }

func (c *skipChecker) saves(w *scene, p *process, t election.Token) {
	if t.Leader.ID == p.rank.ID && invariant.Skips(t, c.top) {
		c.fail(w, p, invariant.Skip, "it saves %v, and the highest anyone has saved is %d", t, c.top)
	}
}
