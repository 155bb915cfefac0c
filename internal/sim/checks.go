package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// checkers check a rule each, or some that belong together. The world calls their methods at the moments that those of
// checks are named for. [history] has the run so far; fields of a checker have the rest. Rules about the end of a run are
// in converge.go. A new checker is a type in a check_….go, a field here, and a line at each of its moments below. At each
// moment the first broken rule ends the run.
type checkers struct {
	// of every algorithm
	rest   restChecker
	view   viewChecker
	bound  boundChecker
	driver driverChecker
	skip   skipChecker
	list   listChecker
	named  namedChecker

	// of best effort
	phase   phaseChecker
	stalled stalledChecker
	vouch   vouchChecker
	lower   lowerChecker
	tell    tellChecker
	saved   savedChecker
	claim   claimChecker

	// of algorithms that never have two leaders
	term  termChecker
	lease leaseChecker
}

// checks are the checkers of a world and their common history.
type checks struct {
	history
	checkers
}

// register gives the checkers their history.
func (c *checks) register() {
	h := &c.history
	c.checkers = checkers{
		restChecker{history: h}, viewChecker{h}, boundChecker{h}, driverChecker{h}, skipChecker{h}, listChecker{h}, namedChecker{history: h},
		phaseChecker{h}, stalledChecker{h}, vouchChecker{history: h}, lowerChecker{h}, tellChecker{h}, savedChecker{h}, claimChecker{h},
		termChecker{history: h}, leaseChecker{history: h},
	}
}

// reset begins a new run, before its processes start.
func (c *checks) reset(w *scene) {
	c.history.reset(w)
	c.rest.begin(w)
	c.named.begin(w)
	c.vouch.begin(w)
	c.term.begin(w)
	c.lease.begin(w)
}

// tick is an event at that time.
func (c *checks) tick(w *scene, at time.Duration) { c.rest.instant(w, at) }

// stepped is after a step of a Machine, which has received m unless that is nil, and before its actions.
func (c *checks) stepped(w *scene, p *process, m *election.Message, actions []election.Action) {
	if w.quorum {
		c.lease.stepped(w, p)
		return
	}
	c.phase.stepped(w, p)
	if c.places[p.place].stalled.Defined() {
		c.stalled.resumed(w, p, actions)
	} else if m != nil {
		c.vouch.received(w, p, m, actions)
		c.lower.received(w, p, m, actions)
	}
}

// performed is after every action of a step, where the list changes.
func (c *checks) performed(w *scene, p *process) { c.list.performed(w, p) }

// elected is before p announces an election or a loss to its watchers.
func (c *checks) elected(w *scene, p *process, a *election.Action) {
	c.view.tells(w, p, a)
	if w.quorum {
		c.term.tells(w, p, a)
		c.lease.tells(w, p, a)
	} else {
		c.saved.tells(w, p, a)
		c.claim.tells(w, p, a)
	}
	c.hasTold(w, p, a)
}

// saves is before p writes a state with this token, or records (without a token).
func (c *checks) saves(w *scene, p *process, t election.Token) {
	c.driver.saves(w, p, t)
	c.skip.saves(w, p, t)
	c.top = max(c.top, t.Epoch)
}

// sends is before p sends m.
func (c *checks) sends(w *scene, p *process, m *election.Message) {
	c.bound.sends(w, p, m)
	if w.quorum {
		c.term.sends(w, p, m)
	} else {
		c.vouch.sends(w, p, m)
		c.tell.sends(w, p, m)
		c.saved.sends(w, p, m)
	}
	c.hasSent(m)
}

// queued is after a frame was put on its way to e.
func (c *checks) queued(w *scene, e *endpoint) { c.bound.queued(w, e) }

// reaches is before p dials the member in that slot.
func (c *checks) reaches(w *scene, p *process, slot int) { c.driver.reaches(w, p, slot) }

// ended is the end of p or of its host.
func (c *checks) ended(w *scene, p *process, as scenario.Condition) {
	if w.quorum {
		c.lease.ends(w, p, as)
	}
}

// namedChanged is before p handles a change of a named election.
func (c *checks) namedChanged(w *scene, p *process, ch *named.Change) { c.named.names(w, p, ch) }
