package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/machine"
	"github.com/batuta-dev/batuta/sim/invariant"
	"github.com/batuta-dev/batuta/sim/scenario"
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

// pairsUpTo bounds the clusters whose pairs are watched one by one.
const pairsUpTo = 64

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

// disturbed takes note that something has happened to a member's connections.
func (c *checks) disturbed(w *world, p *process) {
	c.fault = w.now
	c.disturbedAt(p, w.now)
}

func (c *checks) disturbedAt(p *process, at time.Duration) {
	if len(c.calm) == 0 {
		return
	}
	for i := range c.n {
		for _, since := range [...][]time.Duration{c.calm, c.whole} {
			forth, back := &since[p.slot*c.n+i], &since[i*c.n+p.slot]
			*forth, *back = max(*forth, at), max(*back, at)
		}
	}
}

// disturbedPair takes note that a member knows another since just now, or no more.
func (c *checks) disturbedPair(w *world, p *process, other int) {
	if len(c.calm) > 0 {
		c.calm[p.slot*c.n+other], c.calm[other*c.n+p.slot] = w.now, w.now
	}
}

// enrolled takes note of whom a process knows from its start.
func (c *checks) enrolled(w *world, p *process) {
	for i := range p.peers {
		p.peers[i].known, p.peers[i].since = p.machine.Knows(w.procs[i].rank.ID), w.now
	}
}

// reaches: a driver knows no address but of those that it was told of, and of the
// removed.
func (c *checks) reaches(w *world, p *process, slot int) {
	if w.roster && !p.peers[slot].known && !p.removed(w.procs[slot]) {
		c.fail(w, p, invariant.Driver, "it wants to reach %s, and has not told that it was added", w.procs[slot].rank.ID)
	}
}

// belongs looks at a member after its step.
func (c *checks) belongs(w *world, p *process) {
	leader := p.view.Leader.ID
	switch {
	case !p.view.Defined() || p.condition != scenario.Alive:
	case !p.machine.Knows(leader):
		c.fail(w, p, invariant.Member, "its leader is %s, who is not on its list", leader)
	case leader == p.rank.ID && p.halted != nil:
		c.fail(w, p, invariant.Member, "it leads, and can take no further part: %v", p.halted)
	}
}

// about looks at a member just before its step.
func (c *checks) about(w *world, p *process) {
	s := &c.places[p.place]
	deadline, ok := p.machine.Deadline()
	if w.quorum {
		return
	}
	s.wasDue = ok && deadline.Sub(epochOfTime) <= p.clock.at(w.now)
	s.stalled = election.Token{}
	s.spared = spared(p)
	if p.stall > w.setup.Timing.Bears() && p.view.Leader.ID == p.rank.ID && !w.setup.NoDetector {
		s.stalled = p.view
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

func (c *checks) claimed(w *world, p *process, t election.Token) {
	c.changes++
	if _, again := c.claims[t]; again && c.places[p.place].intact && !(w.setup.Settled && w.now == 0) && !w.everDoubled(p.slot) {
		c.fail(w, p, invariant.Once, "it claims %v, which has been claimed before", t)
	}
	c.claims[t] = p.place
	if p.working {
		c.fail(w, p, invariant.Work, "it leads as %v", t)
	}
	if !w.mayLead(p) {
		c.fail(w, p, invariant.Stands, "it leads as %v", t)
	}
	if w.roster && !slices.Contains(p.listed(), p.rank.ID) {
		c.fail(w, p, invariant.Member, "it claims %v, and its own list says that it has gone", t)
	}
	if len(c.calm) == 0 || w.setup.NoDetector || w.net.slowest > w.setup.Timing.TMax {
		return
	}
	for _, q := range w.procs[:c.n] {
		if q != p && q.condition == scenario.Alive {
			c.overlaps(w, p, q, t)
			c.belowFile(w, p, q, t)
			c.takesOver(w, p, q)
		}
	}
}

// clear says that nothing is and nothing was between two members since then.
func (c *checks) clear(w *world, a, b *process, since time.Duration) bool {
	if a == b {
		return true
	}
	if w.doubled(a.slot) || w.doubled(b.slot) {
		return false // either process may be the one that is heard
	}
	if w.roster && !(a.machine.Knows(b.rank.ID) && b.machine.Knows(a.rank.ID)) {
		return false
	}
	return c.calm[a.slot*c.n+b.slot] < since && c.linked(w, a, b, since)
}

// linked says that both live, and what one says reaches the other, since then at
// the latest.
func (c *checks) linked(w *world, a, b *process, since time.Duration) bool {
	forth, back := a.slot*c.n+b.slot, b.slot*c.n+a.slot
	return c.whole[forth] < since && !w.net.cut[forth] && !w.net.cut[back] &&
		w.net.delay[forth] == 0 && w.net.delay[back] == 0
}

// everDoubled says that a second process has had this id: the two share no disk, and
// may claim one token where they cannot hear of each other.
func (w *world) everDoubled(slot int) bool {
	return slices.ContainsFunc(w.procs[w.net.n:], func(q *process) bool { return q.slot == slot })
}

// doubled says that a second process has this id.
func (w *world) doubled(slot int) bool {
	return slices.ContainsFunc(w.procs[w.net.n:], func(q *process) bool { return q.slot == slot && q.condition != scenario.Dead })
}

// overlaps: p begins to lead in calm, and q's work still runs. Who does not know q
// any more must have known it while it led, and had time to follow it: it was removed.
func (c *checks) overlaps(w *world, p, q *process, t election.Token) {
	lead := &c.places[q.place]
	if !c.calmFor(w, p, q) {
		return
	}
	of := &p.peers[q.slot]
	known := max(of.since, lead.begun, c.whole[p.slot*c.n+q.slot])
	removed := of.dropped > known && of.dropped-known >= recovery(w.setup.Timing)
	if w.roster && !removed && !c.acquainted(p, q, min(lead.begun, w.now-recovery(w.setup.Timing))) {
		return
	}
	if q.working {
		c.fail(w, p, invariant.Overlap, "it leads as %v, and the work of %s still runs, which it began as %v", t, q.rank.ID, lead.own)
	}
	if lead.own.Epoch == t.Epoch && (c.fault == 0 || c.fault < w.now-recovery(w.setup.Timing)) {
		c.fail(w, p, invariant.OneEpoch, "it leads as %v, and %s has led as %v", t, q.rank.ID, lead.own)
	}
}

// calmFor says that p and q have both lived for as long as one that has just started
// asks around, or awaits a leader, and announces itself, and that nothing has been
// between them for as long as a healed link may go unnoticed.
func (c *checks) calmFor(w *world, p, q *process) bool {
	if w.everDoubled(p.slot) || w.everDoubled(q.slot) {
		return false // either process may be the one that is heard
	}
	born := max(w.born(p), w.born(q))
	return w.now-born >= 3*w.setup.Timing.Bears() && c.linked(w, p, q, max(born, w.now-recovery(w.setup.Timing)))
}

// born is since when a process takes part: who joins asks to be let in first, and then
// leaves it to the others to elect, until a leader over a link that has yet to be made
// would have reached it.
func (w *world) born(p *process) time.Duration {
	if len(p.through) == 0 {
		return p.started
	}
	return p.begunAt + w.setup.Timing.DialTime() + w.setup.Timing.T()
}

// acquainted says that two members have known each other since then. One that was
// dialed before it knew the other refuses, and is dialed again after a pause: that is
// a link that has healed.
func (c *checks) acquainted(p, q *process, since time.Duration) bool {
	return p.machine.Knows(q.rank.ID) && q.machine.Knows(p.rank.ID) && c.calm[p.slot*c.n+q.slot] < since
}

// recovery is how long a link that has healed may go unnoticed: the longest pause
// between two dials, the dial, and what the detector takes after it.
func recovery(t election.Timing) time.Duration { return time.Second + 2*t.TMax + 3*t.Bears() }

// belowFile: p could reach q ever since it started, and q's disk knew more by then.
// One that has been following may claim at once: its leader knew of that, if it could
// reach q as well. Where members join, or two claim one id, it need not have known of q.
func (c *checks) belowFile(w *world, p, q *process, t election.Token) {
	if s := &c.places[p.place]; s.told {
		leader := w.procs[w.slots[s.held.Leader.ID]]
		if w.roster || len(w.procs) > w.net.n || leader != p && !c.clear(w, leader, q, p.started) {
			return
		}
	}
	if c.clear(w, p, q, p.started) && q.heldAt < p.started && q.disk.now.Token.Epoch >= t.Epoch {
		c.fail(w, p, invariant.Asked, "it claims %v, and %s, which it can reach, has %v on disk", t, q.rank.ID, q.disk.now.Token)
	}
}

// takesOver: q leads, or hands over and its work still runs; p has known of nothing higher, and
// p has heard q all along, or somebody who hears it.
func (c *checks) takesOver(w *world, p, q *process) {
	if w.everDoubled(p.slot) {
		return // either process may be the one that is heard
	}
	lead := &c.places[q.place]
	leads := q.view.Leader.ID == q.rank.ID || q.working && lead.yields
	if w.roster && !p.machine.Knows(q.rank.ID) {
		return // it was removed, or has left
	}
	if !leads || c.places[p.place].held.Above(lead.held) {
		return
	}
	if !c.places[p.place].told && lead.since < p.started && c.clear(w, p, q, p.started) {
		c.fail(w, p, invariant.Takeover, "%s leads as %v and can be heard", q.rank.ID, lead.held)
	}
	long := w.now - 3*w.setup.Timing.Bears()
	if p.started > long || lead.since > long || p.peers[q.slot].dropped > long {
		return
	}
	for _, v := range w.procs[:c.n] {
		hears := v == q || v.view == lead.held && c.places[v.place].since < long
		if v != p && v.condition == scenario.Alive && hears && c.clear(w, p, v, long) && c.clear(w, v, q, long) {
			c.fail(w, p, invariant.Takeover, "%s leads as %v, and %s hears it", q.rank.ID, lead.held, v.rank.ID)
		}
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

func (c *checks) queued(w *world, e *endpoint) {
	if e.in.len() > 256 {
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
