package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// history is the run so far, for checkers. It changes after all of them have run. It also has
// the first broken rule, which ends the run.
type history struct {
	broken *invariant.Violation

	places []placeRecord // by place
	claims map[election.Token]int
	top    uint64 // the highest epoch that any member has tried to save

	calm  []time.Duration // from·n + to: since when the pair is undisturbed; nil for big clusters
	whole []time.Duration // the same, except for changes of the list
	fault time.Duration   // when the last fault happened anywhere, except for a member's end
	n     int

	told    uint64 // views that have changed
	changes int    // claims since the last mark
	rounds  uint64 // the highest round number sent since then
	lost    []int
	counted map[election.MessageKind]int // nil: not requested
	states  []election.MemberState       // at·n + of
}

// placeRecord is the history of a place.
type placeRecord struct {
	held    election.Token    // the highest announced to watchers in this life, or on disk at its start
	since   time.Duration     // of the present view
	begun   time.Duration     // of its own last leadership
	own     election.Token    // that leadership
	list    []election.Member // its list when that began
	yields  bool              // it hands over as soon as its work has stopped
	told    bool              // it has had a leader in this life
	intact  bool              // its file was never rolled back
	wasDue  bool              // its deadline had passed before this step
	unsaved election.Token    // the last that it followed although its disk did not save it
	guard   time.Duration     // the end of its lease, by its own clock; 0: it has none
	guardOf uint64            // the life of the process that has or had that lease
	stalled election.Token    // its leadership, if it was stopped for longer than T
	applied uint64            // the index up to which it has applied the log, and what that is
	chain   uint64
	spared  time.Time // until when confirmations protected its leader before this step
}

func (c *history) reset(w *scene) {
	n := len(w.setup.Members)
	c.broken, c.top, c.n, c.changes, c.rounds, c.fault = nil, 0, n, 0, 0, 0
	if c.claims == nil {
		c.claims = map[election.Token]int{}
	}
	clear(c.claims)
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
	if w.log != nil || w.setup.NoDetector {
		c.counted = map[election.MessageKind]int{}
	}
}

// sized returns n zeros, in s if it has room.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

func (c *history) fail(w *scene, p *process, rule, format string, args ...any) {
	if c.broken == nil {
		c.broken = &invariant.Violation{Rule: rule, Member: w.name(p), At: w.now, What: fmt.Sprintf(format, args...)}
	}
}

// started records a new life and the token on its disk.
func (c *history) startedLife(w *scene, p *process) {
	for p.place >= len(c.places) {
		c.places = append(c.places, placeRecord{})
		c.lost = append(c.lost, 0)
	}
	before := c.places[p.place]
	c.places[p.place] = placeRecord{guard: before.guard, guardOf: before.guardOf, intact: !p.disk.rolledBack && !w.setup.NoDisk}
	if !w.setup.NoDisk {
		c.places[p.place].held = p.disk.now.Token
	}
}

// mark begins to count again.
func (c *history) mark() {
	c.changes = 0
	clear(c.lost)
	clear(c.counted)
}

// about records a member's state just before its step.
func (c *history) about(w *scene, p *process, now time.Time) {
	if w.quorum {
		return
	}
	s := &c.places[p.place]
	deadline, ok := p.machine.Deadline()
	s.wasDue = ok && !deadline.After(now)
	s.stalled = election.Token{}
	s.spared = sparedUntil(p)
	if p.stall > 0 && p.stall > w.setup.Timing.Bears() && p.view.Leader.ID == p.rank.ID && !w.setup.NoDetector {
		s.stalled = p.view
	}
}

// hasTold records what a member has announced to its watchers.
func (c *history) hasTold(w *scene, p *process, a *election.Action) {
	s := &c.places[p.place]
	c.told++
	mine := a.Token.Leader.ID == p.rank.ID
	s.since = w.now
	if a.Kind == election.NotifyLost {
		c.lost[p.place]++
		s.yields = a.Cause == election.CauseResigned && mine
		return
	}
	s.held, s.told = a.Token, true
	if mine && a.Kind == election.NotifyRenewed {
		c.claims[a.Token] = p.place
		s.own = a.Token
	} else if mine {
		c.changes++
		c.claims[a.Token] = p.place
		s.begun, s.own, s.list = w.now, a.Token, p.machine.List()
	} else if !w.quorum && w.unsaved(p) {
		s.unsaved = a.Token
	}
}

// hasSent counts a message, if messages are counted.
func (c *history) hasSent(m *election.Message) {
	if c.counted != nil {
		c.counted[m.Kind]++
		c.rounds = max(c.rounds, m.Round.Number)
	}
}

// allUp records that a member which starts settled takes the rest for up.
func (c *history) allUp(p *process) {
	if len(c.states) > 0 {
		for i := range c.n {
			c.states[p.place*c.n+i] = election.StateUp
		}
	}
}

// notified records a member's report about a member.
func (c *history) notified(w *scene, p *process, a *election.Action) {
	to, ok := w.slots[a.Member]
	if ok && len(c.states) > 0 && p.place < c.n {
		c.states[p.place*c.n+to] = a.Status
	}
	if ok && (a.Status == election.StateAdded || a.Status == election.StateRemoved) {
		q := &p.peers[to]
		if q.known = a.Status == election.StateAdded; q.known {
			q.since = w.now
		} else {
			q.dropped = w.now
		}
		if len(c.calm) > 0 {
			c.calm[p.slot*c.n+to], c.calm[to*c.n+p.slot] = w.now, w.now
		}
	}
	if w.log != nil && a.Status == election.StateUnreachable {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "reports", Peer: a.Member, Why: string(a.Status)})
	}
}

// isSpared returns until when confirmations protect a silent leader.
func sparedUntil(p *process) time.Time {
	if m, ok := p.machine.(*machine.Machine); ok {
		return m.Spared()
	}
	return time.Time{}
}

// What follows records when links and members were disturbed: most rules hold only without faults.

// pairsUpTo is the largest cluster whose pairs are recorded separately.
const pairsUpTo = 64

// disturbed records that a member's connections were disturbed.
func (c *history) disturbed(w *scene, p *process) {
	c.fault = w.now
	c.disturbedAt(p, w.now)
}

func (c *history) disturbedAt(p *process, at time.Duration) {
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

// enrolled records which members a process has on its list at its start.
func (c *history) enrolled(w *scene, p *process) {
	for i := range p.peers {
		p.peers[i].known, p.peers[i].since = p.machine.Knows(w.procs[i].rank.ID), w.now
	}
}

// clear reports whether two members have been able to reach each other since then, undisturbed.
func (c *history) clear(w *scene, a, b *process, since time.Duration) bool {
	if a == b {
		return true
	}
	if w.doubled(a.slot) || w.doubled(b.slot) {
		return false // the messages may come from either process
	}
	if w.roster && !(a.machine.Knows(b.rank.ID) && b.machine.Knows(a.rank.ID)) {
		return false
	}
	return c.calm[a.slot*c.n+b.slot] < since && c.linked(w, a, b, since)
}

// linked reports whether messages have passed between two members in both directions since then,
// undisturbed.
func (c *history) linked(w *scene, a, b *process, since time.Duration) bool {
	forth, back := a.slot*c.n+b.slot, b.slot*c.n+a.slot
	return c.whole[forth] < since && !w.net.cut[forth] && !w.net.cut[back] &&
		w.net.delay[forth] == 0 && w.net.delay[back] == 0
}

// calmFor reports whether p and q have been alive and connected for long enough to agree. The
// time of a start includes asking around, or waiting for a leader, and the announcement. A
// healed link counts only after the time for which it may go unnoticed.
func (c *history) calmFor(w *scene, p, q *process) bool {
	if w.everDoubled(p.slot) || w.everDoubled(q.slot) {
		return false // the messages may come from either process
	}
	born := max(w.born(p), w.born(q))
	return w.now-born >= 3*w.setup.Timing.Bears() && c.linked(w, p, q, max(born, w.now-recovery(w.setup.Timing)))
}

// acquainted reports whether two members have had each other on their lists since then. A member
// refuses a process that is not on its list, which dials again after a pause, as after a heal.
func (c *history) acquainted(p, q *process, since time.Duration) bool {
	return p.machine.Knows(q.rank.ID) && q.machine.Knows(p.rank.ID) && c.calm[p.slot*c.n+q.slot] < since
}

// eachOutranks reports whether p, which begins to lead as t, and q, which has led, each outranked the other
// by its own list: a changed priority had reached only one of them. Neither asks the other then.
func (c *history) eachOutranks(p, q *process, t election.Token) bool {
	lead := &c.places[q.place]
	outranks := func(own election.Rank, list []election.Member, id election.ID) bool {
		i := slices.IndexFunc(list, func(e election.Member) bool { return e.ID == id })
		return i >= 0 && own.Above(list[i].Rank)
	}
	return outranks(t.Leader, p.machine.List(), q.rank.ID) && outranks(lead.own.Leader, lead.list, p.rank.ID)
}

// recovery returns how long a healed link may go unnoticed: the longest pause between two dials,
// the dial, and the time of the detector.
func recovery(t election.Timing) time.Duration { return time.Second + 2*t.TMax + 3*t.Bears() }

// wait is how long leadership of a named election may last without a message.
func wait(t election.Timing) time.Duration { return 2*t.Bears() + t.Heartbeat }
