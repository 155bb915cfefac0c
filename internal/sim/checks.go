package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// A checker checks a rule, or some that belong together. It has some of the hooks below, which
// the world calls at the moments that they are named for. [history] has the run so far; fields
// of the checker have the rest. Rules about the end of a run are in converge.go.
type (
	// begins: a new run, before its processes start.
	begins interface{ begin(w *scene) }
	// instants: an event at that time.
	instants interface {
		instant(w *scene, at time.Duration)
	}
	// steps: after a step of a Machine, before its actions.
	steps interface{ stepped(w *scene, p *process) }
	// receipts: the same, and the step received m.
	receipts interface {
		received(w *scene, p *process, m *election.Message, actions []election.Action)
	}
	// resumptions: the same, of a leader that had been stopped for longer than T.
	resumptions interface {
		resumed(w *scene, p *process, actions []election.Action)
	}
	// performs: after every action of a step, where the list changes.
	performs interface{ performed(w *scene, p *process) }
	// tellings: before p announces an election or a loss to its watchers.
	tellings interface {
		tells(w *scene, p *process, a *election.Action)
	}
	// savings: before p writes a state with this token, or records (without a token).
	savings interface {
		saves(w *scene, p *process, t election.Token)
	}
	// sendings: before p sends m.
	sendings interface {
		sends(w *scene, p *process, m *election.Message)
	}
	// queues: after a frame was put on its way to e.
	queues interface{ queued(w *scene, e *endpoint) }
	// reachings: before p dials the member in that slot.
	reachings interface {
		reaches(w *scene, p *process, slot int)
	}
	// ends: the end of p or of its host.
	ends interface {
		ends(w *scene, p *process, as scenario.Condition)
	}
	// namings: before p handles a change of a named election.
	namings interface {
		names(w *scene, p *process, ch *named.Change)
	}
)

// checkers returns all checkers in the order of their calls; the first broken rule ends the run.
// A new checker is a type in a check_….go and a line here: for every algorithm, for those of best effort (best),
// or for those that never have two leaders.
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

// checks are the checkers of a world and their common history.
type checks struct {
	history
	best, one hooks
}

// hooks are checkers by hook.
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

// of returns the hooks that apply to a world.
func (c *checks) of(w *scene) *hooks {
	if w.quorum {
		return &c.one
	}
	return &c.best
}

// register finds the hooks of each checker.
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

// add registers all hooks of k and reports whether there are any.
func (h *hooks) add(k any) bool {
	return slices.Contains([]bool{
		hook(&h.begins, k), hook(&h.instants, k), hook(&h.steps, k), hook(&h.receipts, k), hook(&h.resumptions, k), hook(&h.performs, k),
		hook(&h.tellings, k), hook(&h.savings, k), hook(&h.sendings, k), hook(&h.queues, k), hook(&h.reachings, k), hook(&h.ends, k), hook(&h.namings, k),
	}, true)
}

// hook registers k for a hook if it has that, and reports whether it does.
func hook[T any](list *[]T, k any) bool {
	looks, ok := k.(T)
	if ok {
		*list = append(*list, looks)
	}
	return ok
}

func (c *checks) reset(w *scene) {
	c.history.reset(w)
	for _, h := range []*hooks{&c.best, &c.one} {
		for _, k := range h.begins {
			k.begin(w)
		}
	}
}

func (c *checks) tick(w *scene, at time.Duration) {
	for _, k := range c.of(w).instants {
		k.instant(w, at)
	}
}

func (c *checks) stepped(w *scene, p *process, m *election.Message, actions []election.Action) {
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

func (c *checks) performed(w *scene, p *process) {
	for _, k := range c.of(w).performs {
		k.performed(w, p)
	}
}

func (c *checks) elected(w *scene, p *process, a *election.Action) {
	for _, k := range c.of(w).tellings {
		k.tells(w, p, a)
	}
	c.hasTold(w, p, a)
}

func (c *checks) saves(w *scene, p *process, t election.Token) {
	for _, k := range c.of(w).savings {
		k.saves(w, p, t)
	}
	c.wantsSaved(t)
}

func (c *checks) sends(w *scene, p *process, m *election.Message) {
	for _, k := range c.of(w).sendings {
		k.sends(w, p, m)
	}
	c.hasSent(m)
}

func (c *checks) queued(w *scene, e *endpoint) {
	for _, k := range c.of(w).queues {
		k.queued(w, e)
	}
}

func (c *checks) reaches(w *scene, p *process, slot int) {
	for _, k := range c.of(w).reachings {
		k.reaches(w, p, slot)
	}
}

func (c *checks) ended(w *scene, p *process, as scenario.Condition) {
	for _, k := range c.of(w).ends {
		k.ends(w, p, as)
	}
}

func (c *checks) namedChanged(w *scene, p *process, ch *named.Change) {
	for _, k := range c.of(w).namings {
		k.names(w, p, ch)
	}
}
