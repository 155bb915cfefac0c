package sim

import (
	"github.com/batuta-dev/batuta/assignment"
	"github.com/batuta-dev/batuta/sim/invariant"
	"github.com/batuta-dev/batuta/sim/scenario"
)

// namedChecker looks at named elections.
type namedChecker struct {
	*history
	tops map[string]uint64 // the highest epoch that anyone has led a name under
}

func (c *namedChecker) begin(*world) { clear(c.tops) }

func (c *namedChecker) names(w *world, p *process, ch *assignment.Change) {
	sees, top, mine := p.sees[ch.Name], p.tops[ch.Name], ch.Token.Leader.ID == p.rank.ID
	switch {
	case ch.Lost:
		if sees != ch.Token {
			c.fail(w, p, invariant.NamedLost, "it loses %v of %s while it sees %v", ch.Token, ch.Name, sees)
		}
		return
	case sees.Defined():
		c.fail(w, p, invariant.NamedLost, "it sees %v lead %s, and has not told that %v does no more", ch.Token, ch.Name, sees)
	case ch.Token.Epoch < top, mine && ch.Token.Epoch == top:
		c.fail(w, p, invariant.NamedRises, "it sees %v lead %s after epoch %d", ch.Token, ch.Name, top)
	}
	if mine {
		c.leads(w, p, ch)
	}
}

// leads looks at who else leads a name when a member begins to.
func (c *namedChecker) leads(w *world, p *process, ch *assignment.Change) {
	if w.quorum {
		if c.tops == nil {
			c.tops = map[string]uint64{}
		}
		if ch.Token.Epoch <= c.tops[ch.Name] {
			c.fail(w, p, invariant.NamedRises, "it leads %s as %v, and epoch %d was before", ch.Name, ch.Token, c.tops[ch.Name])
		}
		c.tops[ch.Name] = ch.Token.Epoch
	}
	for _, q := range w.procs {
		if q == p || q.assigned == nil || q.condition != scenario.Alive && q.condition != scenario.Frozen {
			continue
		}
		leads := q.leads[ch.Name]
		switch {
		case w.quorum && leads.Defined() && q.clock.at(w.now) < q.assigned.Until().Sub(epochOfTime):
			c.fail(w, p, invariant.NamedOnce, "it leads %s as %v while %v does", ch.Name, ch.Token, leads)
		case !w.quorum && (leads.Defined() || q.toils[ch.Name]) && c.settledWith(w, p, q):
			c.fail(w, p, invariant.NamedOnce, "it leads %s as %v while %s does, or works for it", ch.Name, ch.Token, q.rank.ID)
		}
	}
}

// settledWith says that two members, and who coordinates for both, have had nothing
// between them for long.
func (c *namedChecker) settledWith(w *world, p, q *process) bool {
	if len(c.calm) == 0 || p.view != q.view || !p.view.Defined() || q.condition != scenario.Alive {
		return false
	}
	r := w.bySlot(p.view.Leader.ID)
	if r.view != p.view || r.condition != scenario.Alive {
		return false
	}
	long := w.now - 3*wait(w.setup.Timing) - recovery(w.setup.Timing)
	for _, x := range []*process{p, q, r} {
		if c.places[x.place].since > w.now-wait(w.setup.Timing) {
			return false
		}
	}
	pair := func(a, b *process) bool {
		return a == b || c.calmFor(w, a, b) && c.calm[a.slot*c.n+b.slot] < long && c.whole[a.slot*c.n+b.slot] < long
	}
	return long > 0 && pair(p, q) && pair(p, r) && pair(q, r)
}
