package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
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

// restChecker checks that a cluster comes to rest.
type restChecker struct {
	*history
	lastAt time.Duration
	same   int // occurrences at lastAt
}

func (c *restChecker) begin(*scene) { c.lastAt, c.same = 0, 0 }

// instant counts the events at the same instant.
func (c *restChecker) instant(w *scene, at time.Duration) {
	if at != c.lastAt {
		c.lastAt, c.same = at, 0
		return
	}
	if c.same++; c.same > 1000+100*c.n*c.n {
		c.fail(w, w.procs[0], invariant.Rest, "more than %d events at one instant", c.same)
	}
}

// stalledChecker checks that a leader which was stopped for long loses leadership before it sends.
type stalledChecker struct{ *history }

func (c *stalledChecker) resumed(w *scene, p *process, actions []election.Action) {
	if does := invariant.BeforeLosing(p.view, actions); does != "" {
		c.fail(w, p, invariant.Stalled, "it was stopped for %v and %s", p.stall, does)
	}
}

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
