package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

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
	if _, again := c.said[m]; m.Kind == election.ProbeReply && !again {
		c.said[m] = w.now
	}
}
