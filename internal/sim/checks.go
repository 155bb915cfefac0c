package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// A checker looks whether a rule is broken, or a few that belong together: it has one or
// more of the hooks below, and the world calls it at the moments that these are named for. It
// finds what has happened so far in [history], and what is to be remembered besides in
// fields of its own. Rules about how a run ends are demanded by converge.go.
type (
	// begins: a new run, whose processes have yet to start.
	begins interface{ begin(w *world) }
	// instants: something happens at that time.
	instants interface {
		instant(w *world, at time.Duration)
	}
	// steps: a Machine was stepped, and none of its actions is performed yet.
	steps interface{ stepped(w *world, p *process) }
	// receipts: the same, and it has taken in m.
	receipts interface {
		received(w *world, p *process, m *election.Message, actions []election.Action)
	}
	// resumptions: the same, and it leads and had been stopped for longer than T.
	resumptions interface {
		resumed(w *world, p *process, actions []election.Action)
	}
	// performs: every action of a step is performed, where the list changes.
	performs interface{ performed(w *world, p *process) }
	// tellings: p is about to tell its watchers of an election or a loss.
	tellings interface {
		tells(w *world, p *process, a *election.Action)
	}
	// savings: p is about to write a state with this token, or records: with none.
	savings interface {
		saves(w *world, p *process, t election.Token)
	}
	// sendings: p is about to send m.
	sendings interface {
		sends(w *world, p *process, m *election.Message)
	}
	// queues: a frame was put on the way to e.
	queues interface{ queued(w *world, e *endpoint) }
	// reachings: p is about to dial the member in that slot.
	reachings interface {
		reaches(w *world, p *process, slot int)
	}
	// ends: p is no more, or its host.
	ends interface {
		ends(w *world, p *process, as scenario.Condition)
	}
	// namings: p is about to take in a change of a named election.
	namings interface {
		names(w *world, p *process, ch *named.Change)
	}
)

// checkers are all there are, in the order in which they look: the first broken rule ends
// the run. A new one is a file, and a line here: among those of every algorithm, of those
// that promise their best, or of those that promise one leader.
func checkers(c *history) (every, best, one []any) {
	return []any{
			&restChecker{history: c},
			&viewChecker{c},
			&boundChecker{c},
			&driverChecker{c},
			&skipChecker{c},
			&listChecker{c},
			&namedChecker{history: c},
		}, []any{
			&phaseChecker{c},
			&stalledChecker{c},
			&vouchChecker{history: c},
			&lowerChecker{c},
			&tellChecker{c},
			&savedChecker{c},
			&claimChecker{c},
		}, []any{
			&termChecker{history: c},
			&leaseChecker{history: c},
		}
}

// checks are the checkers of a world and the history that they share.
type checks struct {
	history
	best, one hooks
}

// hooks are checkers by what they look at.
type hooks struct {
	begins      []begins
	instants    []instants
	steps       []steps
	receipts    []receipts
	resumptions []resumptions
	performs    []performs
	tellings    []tellings
	savings     []savings
	sendings    []sendings
	queues      []queues
	reachings   []reachings
	ends        []ends
	namings     []namings
}

// of gives those that look at a world.
func (c *checks) of(w *world) *hooks {
	if w.quorum {
		return &c.one
	}
	return &c.best
}

// register finds out what each checker looks at.
func (c *checks) register() {
	every, best, one := checkers(&c.history)
	c.best.register(slices.Concat(every, best))
	c.one.register(slices.Concat(every, one))
	if new(hooks).add(&c.history) {
		panic("sim: a method of history is named as a hook: every checker would have it")
	}
}

func (h *hooks) register(all []any) {
	for _, k := range all {
		if !h.add(k) {
			panic(fmt.Sprintf("sim: %T looks at nothing", k))
		}
	}
}

// add reports whether k looks at anything.
func (h *hooks) add(k any) bool {
	return slices.Contains([]bool{
		hook(&h.begins, k), hook(&h.instants, k), hook(&h.steps, k), hook(&h.receipts, k), hook(&h.resumptions, k), hook(&h.performs, k),
		hook(&h.tellings, k), hook(&h.savings, k), hook(&h.sendings, k), hook(&h.queues, k), hook(&h.reachings, k), hook(&h.ends, k), hook(&h.namings, k),
	}, true)
}

// hook adds k to those that look at one thing, if it does.
func hook[T any](list *[]T, k any) bool {
	looks, ok := k.(T)
	if ok {
		*list = append(*list, looks)
	}
	return ok
}

func (c *checks) reset(w *world) {
	c.history.reset(w)
	for _, h := range []*hooks{&c.best, &c.one} {
		for _, k := range h.begins {
			k.begin(w)
		}
	}
}

func (c *checks) tick(w *world, at time.Duration) {
	for _, k := range c.of(w).instants {
		k.instant(w, at)
	}
}

func (c *checks) stepped(w *world, p *process, m *election.Message, actions []election.Action) {
	h := c.of(w)
	for _, k := range h.steps {
		k.stepped(w, p)
	}
	switch {
	case c.places[p.place].stalled.Defined():
		for _, k := range h.resumptions {
			k.resumed(w, p, actions)
		}
	case m != nil:
		for _, k := range h.receipts {
			k.received(w, p, m, actions)
		}
	}
}

func (c *checks) performed(w *world, p *process) {
	for _, k := range c.of(w).performs {
		k.performed(w, p)
	}
}

func (c *checks) elected(w *world, p *process, a *election.Action) {
	for _, k := range c.of(w).tellings {
		k.tells(w, p, a)
	}
	c.hasTold(w, p, a)
}

func (c *checks) saves(w *world, p *process, t election.Token) {
	for _, k := range c.of(w).savings {
		k.saves(w, p, t)
	}
	c.wantsSaved(t)
}

func (c *checks) sends(w *world, p *process, m *election.Message) {
	for _, k := range c.of(w).sendings {
		k.sends(w, p, m)
	}
	c.hasSent(m)
}

func (c *checks) queued(w *world, e *endpoint) {
	for _, k := range c.of(w).queues {
		k.queued(w, e)
	}
}

func (c *checks) reaches(w *world, p *process, slot int) {
	for _, k := range c.of(w).reachings {
		k.reaches(w, p, slot)
	}
}

func (c *checks) ended(w *world, p *process, as scenario.Condition) {
	for _, k := range c.of(w).ends {
		k.ends(w, p, as)
	}
}

func (c *checks) named(w *world, p *process, ch *named.Change) {
	for _, k := range c.of(w).namings {
		k.names(w, p, ch)
	}
}
