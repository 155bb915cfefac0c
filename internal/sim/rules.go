package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// checkers check a rule each, or some that belong together. The world calls their methods at the moments that those of
// checks are named for. [history] has the run so far; fields of a checker have the rest. Rules about the end of a run are
// in judge.go. A new checker is a type in a rules….go, a field here, and a line at each of its moments below. At each
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
	halt  haltChecker
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
		termChecker{history: h}, leaseChecker{history: h}, haltChecker{history: h},
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
	c.halt.begin(w)
}

// tick is an event at that time.
func (c *checks) tick(w *scene, at time.Duration) { c.rest.instant(w, at) }

// stepped is after a step of a Machine, which has received m unless that is nil, and before its actions.
func (c *checks) stepped(w *scene, p *process, m *election.Message, actions []election.Action) {
	if w.quorum {
		c.lease.stepped(w, p)
		c.halt.stepped(w, p)
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

// ending is before the end of p, and of its outstanding write.
func (c *checks) ending(w *scene, p *process) {
	if w.quorum {
		c.term.keeps(w, p)
	}
}

// ended is the end of p or of its host.
func (c *checks) ended(w *scene, p *process, as scenario.Condition) {
	if w.quorum {
		c.lease.ends(w, p, as)
	}
}

// halts is before p ends because of err.
func (c *checks) halts(w *scene, p *process, err error) {
	if w.quorum {
		c.halt.halts(w, p, err)
	}
}

// namedChanged is before p handles a change of a named election.
func (c *checks) namedChanged(w *scene, p *process, ch *named.Change) { c.named.names(w, p, ch) }

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
		c.fail(w, p, invariant.Lost, "it announces that %v is renewed as %v", p.view, a.Token)
	case a.Kind == election.NotifyRenewed:
	case !a.Token.Defined():
		c.fail(w, p, invariant.Claimed, "it announces a leader without an id")
	case p.view.Defined():
		c.fail(w, p, invariant.Lost, "it announces %v and has not lost %v", a.Token, p.view)
	case held.Above(a.Token):
		c.fail(w, p, invariant.Monotone, "it held %v and now announces %v", held, a.Token)
	}
}

// boundChecker checks that queues and messages are bounded.
type boundChecker struct{ *history }

func (c *boundChecker) sends(w *scene, p *process, m *election.Message) {
	if !w.quorum && (len(m.States) > len(w.procs) || len(m.Ring) > len(w.procs)) {
		c.fail(w, p, invariant.Bounded, "its %s lists %d members", m.Kind, max(len(m.States), len(m.Ring)))
	}
}

// queued checks the frames on the way to e: at most three for each heartbeat of the connection's
// longest latency (a heartbeat or its acknowledgement, a ping, a pong), and 256. Its sender has to
// keep the rest. What was held up on the way there arrives, and is answered, all at once.
func (c *boundChecker) queued(w *scene, e *endpoint) {
	if e.in.size() > 256+3*int(e.c.slowest/w.setup.Timing.Heartbeat) {
		c.fail(w, e.far().proc, invariant.Bounded, "%d frames wait on the way to %s", e.in.size(), e.proc.rank.ID)
	}
}

// driverChecker checks that a Machine asks its driver only for what can be done.
type driverChecker struct{ *history }

func (c *driverChecker) saves(w *scene, p *process, _ election.Token) {
	if p.disk.saving {
		c.fail(w, p, invariant.Driver, "it saves while a save is outstanding")
	}
}

// reaches checks that a member dials only members that were added, and removed ones: a driver
// has no further addresses.
func (c *driverChecker) reaches(w *scene, p *process, slot int) {
	if w.roster && !p.peers[slot].known && !p.removed(w.procs[slot]) {
		c.fail(w, p, invariant.Driver, "it has to reach %s, and has not announced that it was added", w.procs[slot].rank.ID)
	}
}

// skipChecker checks that epochs are consecutive.
type skipChecker struct{ *history }

func (c *skipChecker) saves(w *scene, p *process, t election.Token) {
	if t.Leader.ID == p.rank.ID && invariant.Skips(t, c.top) {
		c.fail(w, p, invariant.Skip, "it saves %v, and the highest saved before is %d", t, c.top)
	}
}

// listChecker checks that a member's leader is on its list.
type listChecker struct{ *history }

func (c *listChecker) performed(w *scene, p *process) {
	if !p.disk.failed && w.unwritten(p) {
		c.fail(w, p, invariant.Kept, "its disk lists %s, and no save is outstanding", spellList(p.disk.now.Members))
	}
	leader := p.view.Leader.ID
	switch {
	case !p.view.Defined() || p.condition != scenario.Alive:
	case !p.machine.Knows(leader):
		c.fail(w, p, invariant.Member, "its leader is %s, which is not on its list", leader)
	case leader == p.rank.ID && p.halted != nil:
		c.fail(w, p, invariant.Member, "it leads, and can take no further part: %v", p.halted)
	}
}

// namedChecker checks named elections.
type namedChecker struct {
	*history
	tops map[place]uint64 // the highest epoch under which each slot was led
	used map[spent]bool
}

// spent is an epoch of a name under which a member has led.
type spent struct {
	name  string
	epoch uint64
}

func (c *namedChecker) begin(*scene) {
	c.tops, c.used = map[place]uint64{}, map[spent]bool{}
}

func (c *namedChecker) names(w *scene, p *process, ch *named.Change) {
	at := place{ch.Name, ch.Seat}
	sees, top, mine := p.sees[at], p.tops[at], ch.Token.Leader.ID == p.rank.ID
	switch {
	case ch.Lost:
		if sees != ch.Token {
			c.fail(w, p, invariant.NamedLost, "it loses %v of %s while it sees %v", ch.Token, ch.Name, sees)
		}
		return
	case sees.Defined():
		c.fail(w, p, invariant.NamedLost, "it sees %v lead %s, and has not announced the end of %v", ch.Token, ch.Name, sees)
	case ch.Token.Epoch < top, mine && ch.Token.Epoch <= max(top, p.led[ch.Name]):
		c.fail(w, p, invariant.NamedRises, "it sees %v lead seat %d of %s after epoch %d", ch.Token, ch.Seat, ch.Name, max(top, p.led[ch.Name]))
	}
	if mine {
		c.checkLead(w, p, ch)
	}
}

// checkLead checks which members lead a name when a further member begins to.
func (c *namedChecker) checkLead(w *scene, p *process, ch *named.Change) {
	at, seats := place{ch.Name, ch.Seat}, w.seats[ch.Name]
	if w.quorum {
		if id := (spent{ch.Name, ch.Token.Epoch}); ch.Token.Epoch <= c.tops[at] || c.used[id] {
			c.fail(w, p, invariant.NamedRises, "it leads %s as %v, and epoch %d was before, or was another seat's", ch.Name, ch.Token, c.tops[at])
		} else {
			c.tops[at], c.used[id] = ch.Token.Epoch, true
		}
	}
	others := 0
	for _, q := range w.procs {
		if q == p || q.assigned == nil || q.condition != scenario.Alive && q.condition != scenario.Frozen {
			continue
		}
		leads := q.leads[ch.Name]
		here := leads.Defined() && leads.seat == ch.Seat
		switch {
		case w.quorum && leads.Defined() && q.clock.at(w.now) < q.assigned.Until().Sub(epochOfTime):
			others++
		case !w.quorum && (leads.Defined() || q.toils[ch.Name]) && c.settledWith(w, p, q):
			others++
		default:
			continue
		}
		if here {
			c.fail(w, p, invariant.NamedOnce, "it leads seat %d of %s as %v while %v does", ch.Seat, ch.Name, ch.Token, leads.Token)
		}
	}
	if others >= seats || ch.Seat >= seats {
		c.fail(w, p, invariant.NamedSeats, "it leads seat %d of %s, which has %d, and %d others lead one, or work for it", ch.Seat, ch.Name, seats, others)
	}
}

// settledWith reports whether two members and their common coordinator have long been connected
// without disturbance.
func (c *namedChecker) settledWith(w *scene, p, q *process) bool {
	if len(c.calm) == 0 || p.view != q.view || !p.view.Defined() || q.condition != scenario.Alive {
		return false
	}
	r := w.bySlot(p.view.Leader.ID)
	if r.view != p.view || r.condition != scenario.Alive {
		return false
	}
	long := w.now - 3*wait(w.setup.Timing) - recovery(w.setup.Timing)
	for _, x := range []*process{p, q, r} {
		if c.places[x.place].since > w.now-wait(w.setup.Timing) {
			return false
		}
	}
	pair := func(a, b *process) bool {
		return a == b || c.calmFor(w, a, b) && c.calm[a.slot*c.n+b.slot] < long && c.whole[a.slot*c.n+b.slot] < long
	}
	return long > 0 && pair(p, q) && pair(p, r) && pair(q, r)
}
