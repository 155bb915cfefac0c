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
