package sim

import (
	"time"

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

// vouchChecker checks the age of a confirmation that a member accepts.
type vouchChecker struct {
	*history
	said map[*election.Message]time.Duration // when each REPORT was first sent
}

func (c *vouchChecker) begin(*scene) {
	if c.said == nil {
		c.said = map[*election.Message]time.Duration{}
	}
	clear(c.said)
}

// received checks a message that confirms the leader which p already follows, if p may have
// accepted it.
func (c *vouchChecker) received(w *scene, p *process, m *election.Message, _ []election.Action) {
	relayed := m.Kind == election.Relay && m.Carried != nil
	if relayed {
		m = m.Carried
	}
	if m.Kind != election.ProbeReply || m.To != p.rank.ID || m.From == m.Token.Leader.ID || m.Token != c.places[p.place].held || p.stall > 0 {
		return
	}
	t := w.setup.Timing
	until := epochOfTime.Add(p.clock.at(w.now) + t.Bears() - m.Age)
	if sparedUntil(p) != until || !until.After(c.places[p.place].spared) {
		return // it made no difference
	}
	if took := w.now - c.said[m]; invariant.LateVouch(t, took, relayed) {
		c.fail(w, p, invariant.Vouch, "%s said %v ago that it hears %v, in answer to %d", m.From, took, m.Token, m.Stamp)
	}
}

// sends records when a REPORT is first sent.
func (c *vouchChecker) sends(w *scene, _ *process, m *election.Message) {
	if m.Kind == election.Relay && m.Carried != nil {
		m = m.Carried
	}
	if m.Kind != election.ProbeReply {
		return
	}
	if _, again := c.said[m]; !again {
		c.said[m] = w.now
	}
}
