package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// termChecker checks the leaderships of an algorithm that has a single leader per epoch.
type termChecker struct {
	*history
	epochs uint64 // the highest epoch that any member has led under
}

func (c *termChecker) begin(*scene) { c.epochs = 0 }

func (c *termChecker) tells(w *scene, p *process, a *election.Action) {
	if a.Kind == election.NotifyLost {
		return
	}
	t, mine := a.Token, a.Token.Leader.ID == p.rank.ID
	_, claimed := c.claims[t]
	switch {
	case mine && t.Epoch <= c.epochs:
		c.fail(w, p, invariant.OneEpochOnly, "it leads as %v, and epoch %d has had a leader", t, c.epochs)
	case mine && p.working:
		c.fail(w, p, invariant.Work, "it leads as %v", t)
	case mine && !w.mayLead(p):
		c.fail(w, p, invariant.Stands, "it leads as %v", t)
	case !mine && !claimed:
		c.fail(w, p, invariant.Claimed, "it follows %v, which nobody has claimed", t)
	}
	if mine {
		c.epochs = t.Epoch
	}
}

// sends checks that a message names only a term that is on disk. Requests for votes, and answers
// before an election, are exceptions.
func (c *termChecker) sends(w *scene, p *process, m *election.Message) {
	if m.Kind == "pre-vote" || m.Kind == "pre-vote-answer" || m.Kind == "vote" {
		return
	}
	core, ok := p.machine.(leaseholder)
	if term := core.Durable(p.disk.log); ok && m.Token.Epoch > term {
		c.fail(w, p, invariant.Saved, "it sends a %s of epoch %d and its disk has %d", m.Kind, m.Token.Epoch, term)
	}
}
