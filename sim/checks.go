package sim

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/machine"
	"github.com/batuta-dev/batuta/sim/invariant"
	"github.com/batuta-dev/batuta/sim/trace"
)

// checks watches every step of a world. The first broken rule ends the run.
type checks struct {
	broken *invariant.Violation

	places []placeRecord // by place
	claims map[election.Token]int
	top    uint64 // the highest epoch that anyone has tried to save

	calm   []time.Duration // from·n + to: since when nothing has happened to the pair; nil for big clusters
	whole  []time.Duration // the same, but for changes of the list
	fault  time.Duration   // when anything last went wrong anywhere, but for a member's end
	n      int
	lastAt time.Duration
	same   int // occurrences at lastAt

	epochs uint64            // the highest epoch that anyone has led under
	chains map[uint64]uint64 // what the log holds up to each index

	namedTop map[string]uint64 // the highest epoch that anyone has led a name under

	told    uint64 // views that have changed
	changes int    // claims since the last mark
	rounds  uint64 // the highest round number sent since then
	lost    []int
	counted map[election.MessageKind]int        // nil: nobody asks
	said    map[*election.Message]time.Duration // when each REPORT was first sent
	states  []election.MemberState              // at·n + of
}

// placeRecord is what is remembered of one place.
type placeRecord struct {
	held    election.Token // the highest told to watchers in this life, or on disk at its start
	since   time.Duration  // of the present view
	begun   time.Duration  // of its own last leadership
	own     election.Token // that leadership
	yields  bool           // it steps down for another as soon as its work has stopped
	told    bool           // it has had a leader in this life
	intact  bool           // its file was never rolled back
	wasDue  bool           // its deadline had passed before this step
	unsaved election.Token // the last that it has followed although its disk did not take it
	guard   time.Duration  // the end of its lease, by its own clock; 0: it has none
	stalled election.Token // it leads, and has been stopped for longer than T
	spared  time.Time      // until when others' words spared its leader before this step
}

func (c *checks) reset(w *world) {
	n := len(w.setup.Members)
	c.broken, c.top, c.n, c.lastAt, c.same, c.changes, c.rounds = nil, 0, n, 0, 0, 0, 0
	c.fault = 0
	if c.claims == nil {
		c.claims = map[election.Token]int{}
	}
	clear(c.claims)
	if c.said == nil {
		c.said = map[*election.Message]time.Duration{}
	}
	clear(c.said)
	c.places = sized(c.places, n)
	c.lost = sized(c.lost, n)
	pairs := n * n
	if n > pairsUpTo {
		pairs = 0
	}
	c.calm, c.whole, c.states = sized(c.calm, pairs), sized(c.whole, pairs), sized(c.states, pairs)
	for i := range c.whole {
		c.whole[i] = -1 // before the first start
	}
	c.counted = nil
	c.epochs, c.top = 0, 0
	clear(c.chains)
	clear(c.namedTop)
	if w.log != nil || w.setup.NoDetector {
		c.counted = map[election.MessageKind]int{}
	}
}

// sized gives n zeros, in s if it has room.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

func (c *checks) fail(w *world, p *process, rule, format string, args ...any) {
	if c.broken == nil {
		c.broken = &invariant.Violation{Rule: rule, Member: w.name(p), At: w.now, What: fmt.Sprintf(format, args...)}
	}
}

// tick counts what happens in one instant.
func (c *checks) tick(w *world, at time.Duration) {
	if at != c.lastAt {
		c.lastAt, c.same = at, 0
		return
	}
	if c.same++; c.same > 1000+100*c.n*c.n {
		c.fail(w, w.procs[0], invariant.Rest, "more than %d events at one instant", c.same)
	}
}

// started takes note of a new life and what its disk knows.
func (c *checks) started(w *world, p *process) {
	for p.place >= len(c.places) {
		c.places = append(c.places, placeRecord{})
		c.lost = append(c.lost, 0)
	}
	guard := c.places[p.place].guard
	c.places[p.place] = placeRecord{guard: guard, intact: !p.disk.rolledBack && !w.setup.NoDisk}
	if !w.setup.NoDisk {
		c.places[p.place].held = p.disk.now.Token
	}
}

// stepped looks at what a step wants done.
func (c *checks) stepped(w *world, p *process, ev *election.Event, actions []election.Action) {
	if w.quorum {
		c.leases(w, p)
		return
	}
	c.moved(w, p)
	s := &c.places[p.place]
	if s.stalled.Defined() {
		if does := invariant.BeforeLosing(p.view, actions); does != "" {
			c.fail(w, p, invariant.Stalled, "it was stopped for %v and %s", p.stall, does)
		}
		return
	}
	m := ev.Message
	c.vouched(w, p, m)
	if m == nil || s.wasDue || m.Kind != election.Beat && m.Kind != election.Coordinator {
		return
	}
	if !m.Token.Defined() || !s.held.Above(m.Token) { // a ring names its winner before that one has numbered its time
		return
	}
	for i := range actions {
		a := &actions[i]
		yields := p.unhealthy && a.Kind == election.NotifyLost && a.Cause == election.CauseResigned // to any that is healthy
		if (a.Kind == election.NotifyElected || a.Kind == election.NotifyLost) && !yields {
			c.fail(w, p, invariant.Lower, "it holds %v and acts on a %s of %v", s.held, m.Kind, m.Token)
		}
	}
}

// moved looks at the phases that a step has gone through.
func (c *checks) moved(w *world, p *process) {
	if m, ok := p.machine.(*machine.Machine); ok {
		if from, to, wrong := m.Moved(); wrong {
			c.fail(w, p, invariant.Phases, "it goes from %v to %v", from, to)
		}
	}
}

// elected looks at what a member tells its watchers.
func (c *checks) elected(w *world, p *process, a *election.Action) {
	s := &c.places[p.place]
	c.told++
	if a.Kind == election.NotifyLost {
		if a.Token != p.view || !a.Token.Defined() {
			c.fail(w, p, invariant.Lost, "it loses %v while its leader is %v", a.Token, p.view)
		}
		c.lost[p.place]++
		s.yields = a.Cause == election.CauseResigned && a.Token.Leader.ID == p.rank.ID
		s.since = w.now
		return
	}
	if w.quorum {
		c.inForce(w, p, a.Token)
		return
	}
	mine := a.Token.Leader.ID == p.rank.ID
	switch {
	case !a.Token.Defined():
		c.fail(w, p, invariant.Claimed, "it tells of a leader without a name")
	case p.view.Defined():
		c.fail(w, p, invariant.Lost, "it tells of %v and has not lost %v", a.Token, p.view)
	case s.held.Above(a.Token):
		c.fail(w, p, invariant.Monotone, "it held %v and now tells of %v", s.held, a.Token)
	case !w.setup.NoDisk && a.Token.Above(p.disk.now.Token) && (mine || !w.unsaved(p)):
		c.fail(w, p, invariant.Saved, "it tells of %v and its disk has %v", a.Token, p.disk.now.Token)
	case mine:
		c.claimed(w, p, a.Token)
	default:
		if _, ok := c.claims[a.Token]; !ok {
			c.fail(w, p, invariant.Claimed, "it follows %v, which nobody has claimed", a.Token)
		}
	}
	s.held, s.since, s.told = a.Token, w.now, true
	if !mine && w.unsaved(p) {
		s.unsaved = a.Token
	}
	if mine {
		s.begun, s.own = w.now, a.Token
	}
}

func (c *checks) saves(w *world, p *process) {
	if p.disk.saving {
		c.fail(w, p, invariant.Driver, "it saves while a save is outstanding")
	}
}

// tries looks at what a member wants on disk.
func (c *checks) tries(w *world, p *process, t election.Token) {
	if t.Leader.ID == p.rank.ID && invariant.Skips(t, c.top) {
		c.fail(w, p, invariant.Skip, "it saves %v, and the highest anyone has saved is %d", t, c.top)
	}
	c.top = max(c.top, t.Epoch)
}

func (c *checks) sends(w *world, p *process, m *election.Message) {
	if c.counted != nil {
		c.counted[m.Kind]++
		c.rounds = max(c.rounds, m.Round.Number)
	}
	if w.quorum {
		c.durable(w, p, m)
		return
	}
	c.says(w, m)
	if len(m.States) > len(w.procs) || len(m.Ring) > len(w.procs) {
		c.fail(w, p, invariant.Bounded, "its %s lists %d members", m.Kind, max(len(m.States), len(m.Ring)))
	}
	if p.view.Leader.ID == p.rank.ID && invariant.GivesAway(p.view, m) {
		c.fail(w, p, invariant.Tells, "it sends a %s of %v while its watchers have it lead as %v", m.Kind, m.Token, p.view)
	}
	if d := &p.disk; m.Token != d.now.Token && !w.setup.NoDisk && m.Token.Above(d.now.Token) {
		if !d.failed && m.Token.Above(c.places[p.place].unsaved) || m.Token.Leader.ID == p.rank.ID {
			c.fail(w, p, invariant.Saved, "it sends a %s of %v and its disk has %v", m.Kind, m.Token, d.now.Token)
		}
	}
}

// queued: on the way are two frames a heartbeat of the time that it takes, as
// with any distance; what waits beyond that is what its sender has to keep.
func (c *checks) queued(w *world, e *endpoint) {
	if e.in.len() > 256+2*int(e.in.slowest/w.setup.Timing.Heartbeat) {
		c.fail(w, e.other().proc, invariant.Bounded, "%d frames wait on the way to %s", e.in.len(), e.proc.rank.ID)
	}
}

// allUp: who starts settled takes the others for up.
func (c *checks) allUp(p *process) {
	if len(c.states) > 0 {
		for i := range c.n {
			c.states[p.place*c.n+i] = election.StateUp
		}
	}
}

func (c *checks) notified(w *world, p *process, a *election.Action) {
	to, ok := w.slots[a.Member]
	if ok && len(c.states) > 0 && p.place < c.n {
		c.states[p.place*c.n+to] = a.Status
	}
	if ok && (a.Status == election.StateAdded || a.Status == election.StateRemoved) {
		p.peers[to].known = a.Status == election.StateAdded
		if a.Status == election.StateRemoved {
			p.peers[to].dropped = w.now
		} else {
			p.peers[to].since = w.now
		}
		c.disturbedPair(w, p, to)
	}
	if w.log != nil && a.Status == election.StateUnreachable {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "reports", Peer: a.Member, Why: string(a.Status)})
	}
}
