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
