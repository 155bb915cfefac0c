package sim

import (
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// listChecker checks that a member's leader is on its list.
type listChecker struct{ *history }

func (c *listChecker) performed(w *scene, p *process) {
	leader := p.view.Leader.ID
	switch {
	case !p.view.Defined() || p.condition != scenario.Alive:
	case !p.machine.Knows(leader):
		c.fail(w, p, invariant.Member, "its leader is %s, who is not on its list", leader)
	case leader == p.rank.ID && p.halted != nil:
		c.fail(w, p, invariant.Member, "it leads, and can take no further part: %v", p.halted)
	}
}
