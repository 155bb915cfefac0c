package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// world steps the processes with what happens on the scene: it is their driver.
type world struct {
	wires
	guards  []guard // of crashed leaders
	refuses bool    // the sender of a datagram to a dead member is notified that it is down
	waits   []Wait  // while there is a log
}

// reset makes a new world of s, whose fields are filled and valid.
func (w *world) reset(s scenario.Setup, maker func() election.Algorithm, log func(trace.Entry)) error {
	w.setup, w.make, w.log = s, maker, log
	w.quorum, w.telling = false, false // until a process starts
	w.moves, w.waits = 0, nil
	w.now, w.flights, w.connections = 0, 0, 0
	w.queue.reset()
	w.guards = w.guards[:0]
	w.rng.Seed(s.Seed)
	w.list = w.list[:0]
	clear(w.slots)
	for i, r := range s.Members {
		w.slots[r.ID] = i
		if !slices.Contains(s.Newcomers, r.ID) {
			if !s.Settled && !s.NoDetector {
				r.Priority = 0 // a configured list has no priorities: each process announces its own
			}
			w.list = append(w.list, election.Member{Rank: r, Address: string(r.ID), Observer: slices.Contains(s.Observers, r.ID)})
		}
	}
	for len(w.procs) < len(s.Members) {
		w.procs = append(w.procs, &process{})
	}
	w.procs = w.procs[:len(s.Members)]
	w.net.reset(len(s.Members))
	w.setLatencies()
	w.datagrams.reset()
	w.refuses = false
	w.checks.reset(&w.scene)
	for i, r := range s.Members {
		w.procs[i].reset(i, i, r, len(s.Members))
		w.procs[i].times = s.Timing
		w.procs[i].observer = slices.Contains(s.Observers, r.ID)
	}
	for i, r := range s.Members {
		if slices.Contains(s.Absent, r.ID) || slices.Contains(s.Newcomers, r.ID) {
			continue
		}
		if err := w.start(w.procs[i]); err != nil {
			return err
		}
	}
	return nil
}

// runTo lets everything happen up to and including the moment end, unless a rule is broken first.
func (w *world) runTo(end time.Duration) {
	for w.checks.broken == nil {
		o, ok := w.queue.due(end)
		if !ok {
			break
		}
		w.checks.tick(&w.scene, o.at)
		w.now = o.at
		w.happen(&o)
	}
	if w.now < end && w.checks.broken == nil {
		w.now = end
	}
}

func (w *world) happen(o *occurrence) {
	switch o.kind {
	case wake:
		w.wakeUp(w.procs[o.place], o.life)
	case arrival:
		w.deliver(w.net.endAt(o.place))
	case dialTimeout:
		w.dialTimedOut(w.net.endAt(o.place))
	case idleTimeout:
		w.idleTimedOut(w.net.endAt(o.place))
	case diskDone:
		w.saved(w.procs[o.place], o.life)
	case workDone:
		w.workStopped(w.procs[o.place], o.life)
	case workGone:
		guardSeesEnd(w, o.place)
	case attested:
		handProof(w, o)
	case namedDone:
		w.namedStopped(w.procs[o.place], o.life)
	case datagramArrival:
		w.datagramArrived(o.place)
	case nextRound:
		w.askAgain(w.procs[o.place], o.life)
	}
}

type occurrenceKind uint8

const (
	wake            occurrenceKind = iota + 1 // a member's deadline
	arrival                                   // the head of a pipe is due
	dialTimeout                               // a dial has had its 2·t_max
	diskDone                                  // a save is over
	workDone                                  // a former leader's work has stopped
	datagramArrival                           // a message without links, when the detector is off
	nextRound                                 // a newcomer asks for admission again
	idleTimeout                               // a retired connection has been idle
	workGone                                  // nothing is left of a crashed leader's work, as its guard detects
	attested                                  // a guard's secret arrives; place is of the guard, life the receiver's place
	namedDone                                 // the work of former leaders of named elections has stopped
)

// occurrence is a future event; it is dropped if the life that it belongs to ends before. It
// holds places instead of pointers, which the garbage collector would follow.
type occurrence struct {
	at    time.Duration
	seq   uint64 // ties are broken by the order of scheduling
	life  uint64
	place int32 // of a process, an endpoint or a message, by kind
	kind  occurrenceKind
}

// queue is a binary heap of values: scheduling does not allocate once it has grown.
type queue struct {
	heap []occurrence
	seq  uint64
}

func (q *queue) reset() {
	q.heap, q.seq = q.heap[:0], 0
}

func (a *occurrence) before(b *occurrence) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (q *queue) push(o occurrence) {
	q.seq++
	o.seq = q.seq
	q.heap = append(q.heap, o)
	h, i := q.heap, len(q.heap)-1
	for i > 0 {
		parent := (i - 1) / 2
		if !o.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = o
}

// due removes and returns the next occurrence up to limit.
func (q *queue) due(limit time.Duration) (occurrence, bool) {
	if len(q.heap) == 0 || q.heap[0].at > limit {
		return occurrence{}, false
	}
	h := q.heap
	top, last := h[0], h[len(h)-1]
	q.heap = h[:len(h)-1]
	if len(q.heap) > 0 {
		q.sink(last)
	}
	return top, true
}

func (q *queue) sink(o occurrence) {
	h, i := q.heap, 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(&h[child]) {
			child++
		}
		if !h[child].before(&o) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = o
}

func (w *world) arrive(e *endpoint, f *frame) {
	switch f.kind {
	case syn:
		w.synced(e)
	case synAck:
		w.connected(e)
	case secure:
		w.answerSecure(e)
	case secured:
		w.greets(e)
	case hello:
		w.accept(e)
	case welcome:
		w.dialAnswered(e)
	case refusal:
		w.refusedBy(e, f)
	case ask:
		w.letIn(e, f)
	case admitted:
		w.answered(e, f.in, nil)
	case message:
		w.received(e, f)
	case fin, rst:
		w.ended(e, f.kind == rst)
	}
}

func (w *world) received(e *endpoint, f *frame) {
	if e.state != open || e.life != e.proc.life {
		if w.log != nil {
			w.log(trace.Entry{At: w.now, Member: w.name(e.proc), What: "drops", Peer: f.msg.From,
				Token: f.msg.Token, Message: f.msg, Flight: f.flight, Why: "the connection has ended"})
		}
		if e.far().state == open {
			w.hangUpOn(e, false)
		}
		return
	}
	w.idles(e)
	w.logReceipt(e.proc, f.msg, f.flight)
	w.step(e.proc, &election.Event{Kind: election.Received, Message: f.msg})
}

// ended handles a connection's end; if torn, what was on its way is lost.
func (w *world) ended(e *endpoint, torn bool) {
	if e.c.asks {
		w.answered(e, nil, nil)
		return
	}
	if e.state == closed || e.life != e.proc.life {
		e.state = closed
		return
	}
	p := e.proc
	was, used := e.state, w.inUse(p, e.peer) == e
	e.state = closed
	w.choose(p, e.peer)
	peer := w.procs[e.peer].rank.ID
	if was == opening {
		w.dialFailed(e, false, nil, nil)
		return
	}
	next := w.inUse(p, e.peer)
	if next != nil && !used && !torn {
		return
	}
	// What was written to it may be lost; the Machine resends it.
	w.step(p, &election.Event{Kind: election.LinkDown, Peer: peer, Incarnation: e.inc})
	if next != nil {
		w.step(p, &election.Event{Kind: election.LinkUp, Peer: peer, Rank: next.rank, Incarnation: next.inc})
	}
}

// send writes to the connection in use, or dials if there is none.
func (w *world) send(p *process, to election.ID, m *election.Message) {
	w.checks.sends(&w.scene, p, m)
	w.flights++
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "sends", Peer: to, Token: m.Token, Message: m, Flight: w.flights})
	}
	slot, ok := w.slots[to]
	if !ok {
		w.checks.fail(&w.scene, p, invariant.Driver, "it sends to %s, which is no member", to)
		return
	}
	if w.setup.NoDetector {
		w.checks.reaches(&w.scene, p, slot)
		w.post(p, w.procs[slot], m)
		return
	}
	e := w.inUse(p, slot)
	if e == nil { // an open connection needs no address
		w.checks.reaches(&w.scene, p, slot)
		e = w.dialed(p, slot)
	}
	w.push(e.far(), frame{kind: message, msg: m, flight: w.flights})
}

// deliver delivers the frames to e that are due.
func (w *world) deliver(e *endpoint) {
	for e.in.size() > 0 && e.in.due <= w.now {
		if w.heldUp(e) {
			e.in.due = never
			return
		}
		f := e.in.pop()
		e.in.due = never
		if e.in.size() > 0 && !e.corked {
			e.in.due = max(e.in.frames[e.in.head].at, w.now)
			if e.in.due > w.now {
				w.expect(e, e.in.due)
			}
		}
		w.arrive(e, &f)
		if w.checks.broken != nil {
			return
		}
	}
}

// datagramArrived delivers a datagram. It is lost if the link is cut or the receiver dead; then
// the sender is notified where that applies.
func (w *world) datagramArrived(place int32) {
	f := w.datagrams.take(place)
	from, ok := w.slots[f.m.From]
	if ok && w.refuses && f.to.condition == scenario.Dead {
		w.step(w.procs[from], &election.Event{Kind: election.PeerDown, Peer: f.to.rank.ID})
		return
	}
	if ok && f.to.condition == scenario.Alive && !w.net.cut[from*w.net.n+f.to.slot] {
		w.logReceipt(f.to, f.m, f.no)
		w.step(f.to, &election.Event{Kind: election.Received, Message: f.m})
	}
}

// idleTimedOut ends a retired connection that has been idle for long enough. A process that was
// stopped first reads what came meanwhile.
func (w *world) idleTimedOut(e *endpoint) {
	switch p := e.proc; {
	case e.state != open || !e.retired || e.life != p.life:
	case p.condition == scenario.Frozen:
		w.awaitIdle(e, w.now+w.setup.Timing.TMax)
	case p.clock.at(w.now) < e.idleAt:
		w.awaitIdle(e, p.clock.when(e.idleAt))
	default:
		w.give(e)
		w.tidy(p, e.peer)
	}
}

// accept answers a hello as the process that owns e does, or its kernel.
func (w *world) accept(e *endpoint) {
	p, from := e.proc, e.far()
	if p.condition != scenario.Alive {
		w.push(from, frame{kind: refusal})
		return
	}
	e.life = p.life
	if err := w.admit(p, from); err != nil {
		e.state = closed
		f := frame{kind: refusal, err: err, inc: p.incarnation}
		if e, ok := p.machine.Entry(from.proc.rank.ID); ok && !errors.Is(err, election.ErrNotMember) && err != election.ErrForeign {
			f.in = &admission{List: []election.Member{e}}
		}
		w.push(from, f)
		return
	}
	w.push(from, frame{kind: welcome})
	w.linkUp(e, from.proc)
}

// admit returns why p refuses a process that dials it, or nil.
func (w *world) admit(p *process, from *endpoint) error {
	if err := p.sameTimes(from.proc); err != nil {
		return err
	}
	return p.machine.Admit(epochOfTime.Add(p.clock.at(w.now)), from.proc.machine.Self(), from.inc)
}

// dialAnswered handles the answer to a dial, which may come from an earlier life of the process.
func (w *world) dialAnswered(e *endpoint) {
	if e.state != opening {
		return
	}
	p, other := e.proc, e.far().proc
	if err := p.machine.AdmitAnswer(epochOfTime.Add(p.clock.at(w.now)), other.machine.Self(), e.inc); err != nil {
		e.state = closed
		w.hangUpOn(e, false)
		w.dialFailed(e, false, err, nil)
		return
	}
	w.linkUp(e, other)
}

// dialFailed notifies e's process. with is the refusal of a process; nil: none has answered.
func (w *world) dialFailed(e *endpoint, refused bool, why error, with *frame) {
	w.tidy(e.proc, e.peer)
	ev := election.Event{Kind: election.DialFailed, Peer: w.procs[e.peer].rank.ID, Refused: refused, Err: why}
	if with != nil && with.in != nil {
		ev.Member, ev.Incarnation = with.in.List[0], with.inc
	}
	w.step(e.proc, &ev)
}

func (w *world) dialTimedOut(e *endpoint) {
	if e.state != opening || e.life != e.proc.life {
		return
	}
	if e.proc.condition == scenario.Frozen {
		w.queue.push(occurrence{at: w.now + w.setup.Timing.TMax, kind: dialTimeout, place: e.key(), life: e.life})
		return
	}
	if e.proc.clock.at(w.now) < e.until { // it is connected, and awaits the answer
		w.queue.push(occurrence{at: e.proc.clock.when(e.until), kind: dialTimeout, place: e.key(), life: e.life})
		return
	}
	if e.c.asks {
		if e.far().corked {
			w.unmade(e.c)
		}
		w.answered(e, nil, nil)
		return
	}
	e.state = closed
	w.hangUpOn(e, false)
	w.dialFailed(e, false, nil, nil)
}

func (w *world) dial(p *process, to election.ID) {
	slot, ok := w.slots[to]
	if !ok {
		w.checks.fail(&w.scene, p, invariant.Driver, "it dials %s, which is no member", to)
		return
	}
	w.checks.reaches(&w.scene, p, slot)
	if e := w.inUse(p, slot); e != nil {
		w.step(p, &election.Event{Kind: election.LinkUp, Peer: to, Rank: e.rank, Incarnation: e.inc})
		return
	}
	w.dialed(p, slot)
}

// linkUp notifies e's process.
func (w *world) linkUp(e *endpoint, other *process) {
	p := e.proc
	if e.side == 1 { // the hello and the welcome have the sender's incarnation
		e.inc, e.far().inc = e.far().inc, p.incarnation
	}
	w.connections++
	e.state, e.order, e.rank, p.met = open, w.connections, other.machine.Self(), true
	p.peers[e.peer].heard = true
	for _, x := range p.peers[e.peer].ends {
		if x != e && x.state == open && x.inc != e.inc { // a new process has the id
			w.give(x)
		}
	}
	if e.side == 1 {
		p.peers[e.peer].ends = append(p.peers[e.peer].ends, e)
	}
	w.choose(p, e.peer)
	w.step(p, &election.Event{Kind: election.LinkUp, Peer: other.rank.ID, Rank: e.rank, Incarnation: e.inc})
}

func (w *world) refusedBy(e *endpoint, f *frame) {
	err := f.err
	if e.c.asks {
		w.answered(e, nil, err)
		return
	}
	if e.state != opening || e.life != e.proc.life {
		return
	}
	e.state = closed
	if err != nil {
		e.proc.refused = err
		w.note(e.proc, "is refused by "+string(w.procs[e.peer].rank.ID), err.Error())
	}
	w.dialFailed(e, err == nil, err, f)
}
