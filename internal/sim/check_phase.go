package sim

import (
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// phaseChecker checks that a Machine's phase moves as its table allows.
type phaseChecker struct{ *history }

func (c *phaseChecker) stepped(w *scene, p *process) {
	if m, ok := p.machine.(*machine.Machine); ok {
		if from, to, wrong := m.Moved(); wrong {
			c.fail(w, p, invariant.Phases, "it goes from %v to %v", from, to)
		}
	}
}
