package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// savedChecker checks that a token is on disk before it is announced. Where a majority decides,
// [termChecker] does.
type savedChecker struct{ *history }

func (c *savedChecker) tells(w *scene, p *process, a *election.Action) {
	if w.setup.NoDisk || a.Kind == election.NotifyLost || !a.Token.Above(p.disk.now.Token) {
		return
	}
	if a.Token.Leader.ID == p.rank.ID || !w.unsaved(p) {
		c.fail(w, p, invariant.Saved, "it tells of %v and its disk has %v", a.Token, p.disk.now.Token)
	}
}

func (c *savedChecker) sends(w *scene, p *process, m *election.Message) {
	if d := &p.disk; m.Token != d.now.Token && !w.setup.NoDisk && m.Token.Above(d.now.Token) {
		if !d.failed && m.Token.Above(c.places[p.place].unsaved) || m.Token.Leader.ID == p.rank.ID {
			c.fail(w, p, invariant.Saved, "it sends a %s of %v and its disk has %v", m.Kind, m.Token, d.now.Token)
		}
	}
}

// skipChecker checks that epochs are consecutive.
type skipChecker struct{ *history }

func (c *skipChecker) saves(w *scene, p *process, t election.Token) {
	if t.Leader.ID == p.rank.ID && invariant.Skips(t, c.top) {
		c.fail(w, p, invariant.Skip, "it saves %v, and the highest anyone has saved is %d", t, c.top)
	}
}

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
