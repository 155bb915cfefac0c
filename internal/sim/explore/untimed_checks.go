package explore

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// This file checks the effects of a step against the rules.

func (x *untimed) follow(c *untimedState, i int, e *effect) (v *invariant.Violation) {
	c.machines[i] = e.to
	if len(e.actions) > 90 {
		return x.broken(i, invariant.Rest, "it saves again and again")
	}
	if e.wrong != "" {
		return x.broken(i, invariant.Phases, "%s", e.wrong)
	}
	for k := range e.actions {
		switch a := &e.actions[k]; a.kind {
		case election.NotifyElected, election.NotifyLost:
			v = x.elected(c, i, a)
		case election.Save:
			v = x.saves(c, i, a.token)
		case election.Send:
			v = x.sends(c, i, a)
		}
		if v != nil {
			return v
		}
	}
	return nil
}

func (x *untimed) saves(c *untimedState, i int, t election.Token) *invariant.Violation {
	if c.disks[i].Above(t) {
		return x.broken(i, invariant.Monotone, "its disk has %v and it saves %v", c.disks[i], t)
	}
	if t.Leader == x.ranks[i] && t != c.disks[i] && c.floor[i] >= t.Epoch && !c.asked {
		return x.broken(i, invariant.Asked, "it claims %v, and a member that it could ask had epoch %d when it started", t, c.floor[i])
	}
	c.disks[i] = t
	return nil
}

func (x *untimed) elected(c *untimedState, i int, a *act) *invariant.Violation {
	old := c.told[i]
	if a.kind == election.NotifyLost {
		c.told[i] = election.Token{}
		if a.token != old || !old.Defined() {
			return x.broken(i, invariant.Lost, "it loses %v while its leader is %v", a.token, old)
		}
		return nil
	}
	c.told[i], c.floor[i] = a.token, 0
	leader := slices.Index(x.ranks, a.token.Leader)
	switch {
	case leader < 0:
		return x.broken(i, invariant.Claimed, "it announces a leader that is no member")
	case old.Defined():
		return x.broken(i, invariant.Lost, "it announces %v and has not lost %v", a.token, old)
	case a.token.Above(c.disks[i]):
		return x.broken(i, invariant.Saved, "it announces %v and its disk has %v", a.token, c.disks[i])
	case c.disks[i].Above(a.token):
		return x.broken(i, invariant.Monotone, "its disk has %v and it announces %v", c.disks[i], a.token)
	case a.token.Above(c.disks[leader]):
		return x.broken(i, invariant.Claimed, "it follows %v, which no member has claimed", a.token)
	}
	return nil
}

func (x *untimed) sends(c *untimedState, i int, a *act) *invariant.Violation {
	m, to := a.envelope.m, a.to
	if m.Token.Above(c.disks[i]) {
		return x.broken(i, invariant.Saved, "it sends a %s of %v and its disk has %v", m.Kind, m.Token, c.disks[i])
	}
	x.passes(m, m.From, "sends", m.To)
	if c.machines[to] != nil {
		x.push(c, i, to, a.envelope)
		if len(c.pipes[i*x.n+to]) > 32 {
			return x.broken(i, invariant.Bounded, "32 messages wait on the way to %s", m.To)
		}
		return nil
	}
	back := c.pipes[to*x.n+i]
	if len(back) == 0 || back[len(back)-1] != goodbye {
		x.push(c, to, i, goodbye) // the dial is refused
	}
	return nil
}

// atRest checks a state in which nothing more happens by itself: all live members must follow
// the highest of them.
func (x *untimed) atRest(c *untimedState) *invariant.Violation {
	highest := -1
	for i, m := range c.machines {
		if m != nil {
			highest = i
		}
	}
	for i, m := range c.machines {
		if m != nil && c.told[i].Leader != x.ranks[highest] || m != nil && c.told[i] != c.told[highest] {
			return x.broken(i, invariant.Converges, "nothing is left to happen, and its leader is %s, not %s", invariant.OrNone(c.told[i]), x.ranks[highest].ID)
		}
	}
	return nil
}
