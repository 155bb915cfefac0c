package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// viewChecker checks that watchers see each leadership and its loss, and no lower leadership.
type viewChecker struct{ *history }

func (c *viewChecker) tells(w *scene, p *process, a *election.Action) {
	held := c.places[p.place].held
	switch {
	case a.Kind == election.NotifyLost:
		if a.Token != p.view || !a.Token.Defined() {
			c.fail(w, p, invariant.Lost, "it loses %v while its leader is %v", a.Token, p.view)
		}
	case a.Kind == election.NotifyRenewed && (!p.view.Defined() || p.view.Leader.ID != a.Token.Leader.ID || !a.Token.Above(p.view)):
		c.fail(w, p, invariant.Lost, "it tells that %v is renewed as %v", p.view, a.Token)
	case a.Kind == election.NotifyRenewed:
	case !a.Token.Defined():
		c.fail(w, p, invariant.Claimed, "it tells of a leader without a name")
	case p.view.Defined():
		c.fail(w, p, invariant.Lost, "it tells of %v and has not lost %v", a.Token, p.view)
	case held.Above(a.Token):
		c.fail(w, p, invariant.Monotone, "it held %v and now tells of %v", held, a.Token)
	}
}
