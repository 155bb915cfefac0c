package sim

import (
	"errors"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// This file steps the processes with what arrives over connections.

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
		w.checks.fail(&w.scene, p, invariant.Driver, "it sends to %s, who is no member", to)
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
		w.checks.fail(&w.scene, p, invariant.Driver, "it dials %s, who is no member", to)
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
