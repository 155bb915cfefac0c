package sim

import (
	"errors"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file makes connections: the dial, the handshake and refusals.

// connected continues a dial that got through. TLS comes next, if the cluster has it; the answer
// has its own time limit.
func (w *world) connected(e *endpoint) {
	if !w.setup.Timing.Secured {
		w.greets(e)
	} else if e.state == opening && e.life == e.proc.life {
		e.until = e.proc.clock.at(w.now) + 2*w.setup.Timing.TMax
		w.pushAhead(e.other(), frame{kind: secure})
	}
}

// answerSecure is TLS's answer to a dialer. The process gives it, not the kernel.
func (w *world) answerSecure(e *endpoint) {
	if e.proc.condition != scenario.Alive {
		w.unmade(e.c)
		w.push(e.other(), frame{kind: refusal})
		return
	}
	w.push(e.other(), frame{kind: secured})
}

// greets sends what the dialer has written; the answer to it has its own time limit too.
func (w *world) greets(e *endpoint) {
	if e.state == opening && e.life == e.proc.life {
		e.until = e.proc.clock.at(w.now) + greetTime(w.setup.Timing, e.c.asks)
		w.uncork(e.other())
	}
}

// unmade drops a dial before there was a connection, with all that was to follow.
func (w *world) unmade(c *conn) {
	c.ends[0].in.clear()
	c.ends[1].in.clear()
	c.ends[1].state = closed
}

// greetTime returns how long a dialer waits for the answer to its first message. A connection
// has another 2·t_max to be made. The admission of a newcomer takes t_process.
func greetTime(t election.Timing, asks bool) time.Duration {
	if asks {
		return t.T()
	}
	return 2 * t.TMax
}

// admit returns why p refuses a process that dials it, or nil.
func (w *world) admit(p *process, from *endpoint) error {
	if err := p.sameTimes(from.proc); err != nil {
		return err
	}
	return p.machine.Admit(epochOfTime.Add(p.clock.at(w.now)), from.proc.machine.Self(), from.inc)
}

// sameTimes returns nil if both have the same t_max and t_process, else the error of a driver.
func (p *process) sameTimes(other *process) error {
	if a, b := p.timing, other.timing; a.TMax != b.TMax || a.TProcess != b.TProcess {
		return election.ErrForeign
	}
	return nil
}

// accept answers a hello as the process that owns e does, or its kernel.
func (w *world) accept(e *endpoint) {
	p, from := e.proc, e.other()
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

// dialAnswered handles the answer to a dial, which may come from an earlier life of the process.
func (w *world) dialAnswered(e *endpoint) {
	if e.state != opening {
		return
	}
	p, other := e.proc, e.other().proc
	if err := p.machine.AdmitAnswer(epochOfTime.Add(p.clock.at(w.now)), other.machine.Self(), e.inc); err != nil {
		e.state = closed
		w.hangUpOn(e, false)
		w.dialFailed(e, false, err, nil)
		return
	}
	w.linkUp(e, other)
}

// linkUp notifies e's process.
func (w *world) linkUp(e *endpoint, other *process) {
	p := e.proc
	if e.side == 1 { // the hello and the welcome have the sender's incarnation
		e.inc, e.other().inc = e.other().inc, p.incarnation
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
	w.step(p, election.Event{Kind: election.LinkUp, Peer: other.rank.ID, Rank: e.rank, Incarnation: e.inc})
}

// tidy forgets closed ends.
func (w *world) tidy(p *process, slot int) {
	ends := p.peers[slot].ends
	kept := ends[:0]
	for _, e := range ends {
		if e.state != closed {
			kept = append(kept, e)
		}
	}
	clear(ends[len(kept):])
	p.peers[slot].ends = kept
}

func (w *world) dial(p *process, to election.ID) {
	slot, ok := w.slots[to]
	if !ok {
		w.checks.fail(w, p, invariant.Driver, "it dials %s, who is no member", to)
		return
	}
	w.checks.reaches(w, p, slot)
	if e := w.inUse(p, slot); e != nil {
		w.step(p, election.Event{Kind: election.LinkUp, Peer: to, Rank: e.rank, Incarnation: e.inc})
		return
	}
	w.dialed(p, slot)
}

// dialed returns the dial under way, or begins a dial; later messages follow the hello at once.
func (w *world) dialed(p *process, slot int) *endpoint {
	if ends := p.peers[slot].ends; len(ends) > 0 {
		return ends[0]
	}
	e := w.connect(p, slot, w.newConn(), frame{kind: hello})
	p.peers[slot].ends = append(p.peers[slot].ends, e)
	return e
}

// connect begins a dial in the manner of TCP: SYN, SYN-ACK, the dialer's first message (with
// more right behind it), and the answer take four message delays. TLS adds two, between the
// SYN-ACK and the first message.
func (w *world) connect(p *process, slot int, c *conn, first frame) *endpoint {
	e, to := &c.ends[0], &c.ends[1]
	e.proc, e.life, e.peer = p, p.life, slot
	e.inc = p.incarnation // until the welcome, that of the hello
	to.proc, to.peer = w.listed(p, slot), p.slot
	w.push(to, frame{kind: syn})
	to.corked = true
	w.push(to, first)
	e.until = p.clock.at(w.now) + 2*w.setup.Timing.TMax
	w.queue.push(occurrence{at: p.clock.when(e.until), kind: dialTimeout, place: e.place(), life: p.life})
	return e
}

func (w *world) dialTimedOut(e *endpoint) {
	if e.state != opening || e.life != e.proc.life {
		return
	}
	if e.proc.condition == scenario.Frozen {
		w.queue.push(occurrence{at: w.now + w.setup.Timing.TMax, kind: dialTimeout, place: e.place(), life: e.life})
		return
	}
	if e.proc.clock.at(w.now) < e.until { // it is connected, and awaits the answer
		w.queue.push(occurrence{at: e.proc.clock.when(e.until), kind: dialTimeout, place: e.place(), life: e.life})
		return
	}
	if e.c.asks {
		if e.other().corked {
			w.unmade(e.c)
		}
		w.answered(e, nil, nil)
		return
	}
	e.state = closed
	w.hangUpOn(e, false)
	w.dialFailed(e, false, nil, nil)
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

// dialFailed notifies e's process. with is the refusal of a process; nil: none has answered.
func (w *world) dialFailed(e *endpoint, refused bool, why error, with *frame) {
	w.tidy(e.proc, e.peer)
	ev := election.Event{Kind: election.DialFailed, Peer: w.procs[e.peer].rank.ID, Refused: refused, Err: why}
	if with != nil && with.in != nil {
		ev.Member, ev.Incarnation = with.in.List[0], with.inc
	}
	w.step(e.proc, ev)
}
