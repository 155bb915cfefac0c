package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// stalledChecker checks that a leader which was stopped for long loses leadership before it sends.
type stalledChecker struct{ *history }

func (c *stalledChecker) resumed(w *scene, p *process, actions []election.Action) {
	if does := invariant.BeforeLosing(p.view, actions); does != "" {
		c.fail(w, p, invariant.Stalled, "it was stopped for %v and %s", p.stall, does)
	}
}
