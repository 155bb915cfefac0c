package sim

import (
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// namedChecker checks named elections.
type namedChecker struct {
	*history
	tops map[place]uint64 // the highest epoch under which each slot was led
	used map[spent]bool
}

// spent is an epoch of a name under which a member has led.
type spent struct {
	name  string
	epoch uint64
}

func (c *namedChecker) begin(*scene) {
	c.tops, c.used = map[place]uint64{}, map[spent]bool{}
}

func (c *namedChecker) names(w *scene, p *process, ch *named.Change) {
	at := place{ch.Name, ch.Seat}
	sees, top, mine := p.sees[at], p.tops[at], ch.Token.Leader.ID == p.rank.ID
	switch {
	case ch.Lost:
		if sees != ch.Token {
			c.fail(w, p, invariant.NamedLost, "it loses %v of %s while it sees %v", ch.Token, ch.Name, sees)
		}
		return
	case sees.Defined():
		c.fail(w, p, invariant.NamedLost, "it sees %v lead %s, and has not told that %v does no more", ch.Token, ch.Name, sees)
	case ch.Token.Epoch < top, mine && ch.Token.Epoch <= max(top, p.led[ch.Name]):
		c.fail(w, p, invariant.NamedRises, "it sees %v lead seat %d of %s after epoch %d", ch.Token, ch.Seat, ch.Name, max(top, p.led[ch.Name]))
	}
	if mine {
		c.checkLead(w, p, ch)
	}
}

// checkLead checks which members lead a name when a further member begins to.
func (c *namedChecker) checkLead(w *scene, p *process, ch *named.Change) {
	at, seats := place{ch.Name, ch.Seat}, w.seats[ch.Name]
	if w.quorum {
		if id := (spent{ch.Name, ch.Token.Epoch}); ch.Token.Epoch <= c.tops[at] || c.used[id] {
			c.fail(w, p, invariant.NamedRises, "it leads %s as %v, and epoch %d was before, or was another seat's", ch.Name, ch.Token, c.tops[at])
		} else {
			c.tops[at], c.used[id] = ch.Token.Epoch, true
		}
	}
	others := 0
	for _, q := range w.procs {
		if q == p || q.assigned == nil || q.condition != scenario.Alive && q.condition != scenario.Frozen {
			continue
		}
		leads := q.leads[ch.Name]
		here := leads.Defined() && leads.seat == ch.Seat
		switch {
		case w.quorum && leads.Defined() && q.clock.at(w.now) < q.assigned.Until().Sub(epochOfTime):
			others++
		case !w.quorum && (leads.Defined() || q.toils[ch.Name]) && c.settledWith(w, p, q):
			others++
		default:
			continue
		}
		if here {
			c.fail(w, p, invariant.NamedOnce, "it leads seat %d of %s as %v while %v does", ch.Seat, ch.Name, ch.Token, leads.Token)
		}
	}
	if others >= seats || ch.Seat >= seats {
		c.fail(w, p, invariant.NamedSeats, "it leads seat %d of %s, which has %d, beside %d others that do, or work for it", ch.Seat, ch.Name, seats, others)
	}
}

// settledWith reports whether two members and their common coordinator have long been connected
// without disturbance.
func (c *namedChecker) settledWith(w *scene, p, q *process) bool {
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
