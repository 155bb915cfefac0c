package sim

import (
	"errors"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/sim/invariant"
	"github.com/batuta-dev/batuta/sim/scenario"
	"github.com/batuta-dev/batuta/sim/trace"
)

// network connects the processes in the manner of TCP: bytes of one connection
// arrive in order or not at all; a cut holds them back until it heals or a reset
// throws them away; a host refuses where no process listens; a stopped process's
// kernel accepts and buffers.
type network struct {
	n     int
	cut   []bool          // from·n + to
	takes []scenario.Span // from·n + to: the usual latency
	delay []time.Duration // from·n + to: on top of that
	held  [][]*endpoint   // from·n + to: pipes that wait for a heal
	conns []*conn         // all that were opened in this run
	used  int

	slowest time.Duration // the longest of takes
}

func (n *network) reset(members int) {
	if n.n != members {
		*n = network{n: members, takes: make([]scenario.Span, members*members), cut: make([]bool, members*members),
			delay: make([]time.Duration, members*members), held: make([][]*endpoint, members*members)}
	}
	clear(n.cut)
	clear(n.delay)
	for i := range n.held {
		n.held[i] = n.held[i][:0]
	}
	n.used = 0
}

// setLatencies gives each link its latency.
func (w *world) setLatencies() {
	for i := range w.net.takes {
		w.net.takes[i] = w.setup.Latency
	}
	w.net.slowest = w.setup.Latency.Max
	for _, l := range w.setup.Links {
		a, b := w.slots[l.A], w.slots[l.B]
		w.net.takes[a*w.net.n+b] = l.Span
		if l.Both {
			w.net.takes[b*w.net.n+a] = l.Span
		}
		w.net.slowest = max(w.net.slowest, l.Max)
	}
}

func (w *world) newConn() *conn {
	n := &w.net
	if n.used == len(n.conns) {
		n.conns = append(n.conns, &conn{place: int32(n.used)})
	}
	c := n.conns[n.used]
	n.used++
	c.asks = false
	for i := range c.ends {
		in := c.ends[i].in
		in.clear()
		c.ends[i] = endpoint{c: c, side: i, in: in}
	}
	return c
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
		w.ended(e)
	}
}

func (w *world) received(e *endpoint, f *frame) {
	if e.state != open || e.life != e.proc.life {
		if w.log != nil {
			w.log(trace.Entry{At: w.now, Member: w.name(e.proc), What: "drops", Peer: f.msg.From,
				Token: f.msg.Token, Message: f.msg, Flight: f.flight, Why: "the connection has ended"})
		}
		if e.other().state == open {
			w.hangUpOn(e, false)
		}
		return
	}
	w.logReceipt(e.proc, f.msg, f.flight)
	w.step(e.proc, election.Event{Kind: election.Received, Message: f.msg})
}

func (w *world) logReceipt(p *process, m *election.Message, flight uint64) {
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "receives", Peer: m.From, Token: m.Token,
			Message: m, Flight: flight})
	}
}

// synced is a kernel's answer to a dial: it makes the connection if a process
// listens, stopped or not, and refuses if none does.
func (w *world) synced(e *endpoint) {
	from := e.other()
	if e.proc.condition == scenario.Dead {
		w.unmade(e.c)
		w.push(from, frame{kind: refusal})
		return
	}
	w.push(from, frame{kind: synAck})
}

// connected: the dial is through. TLS comes next, if the cluster has it; the answer has
// a bound of its own.
func (w *world) connected(e *endpoint) {
	if !w.setup.Timing.Secured {
		w.greets(e)
	} else if e.state == opening && e.life == e.proc.life {
		e.until = e.proc.clock.at(w.now) + 2*w.setup.Timing.TMax
		w.pushAhead(e.other(), frame{kind: secure})
	}
}

// answerSecure is TLS's answer to a dialer. It is the process that gives it.
func (w *world) answerSecure(e *endpoint) {
	if e.proc.condition != scenario.Alive {
		w.unmade(e.c)
		w.push(e.other(), frame{kind: refusal})
		return
	}
	w.push(e.other(), frame{kind: secured})
}

// greets has what has been written go on its way; the answer to it has a bound of its
// own, too.
func (w *world) greets(e *endpoint) {
	if e.state == opening && e.life == e.proc.life {
		e.until = e.proc.clock.at(w.now) + greetTime(w.setup.Timing, e.c.asks)
		w.uncork(e.other())
	}
}

// unmade: a dial is lost before there was a connection, and all that was to follow.
func (w *world) unmade(c *conn) {
	c.ends[0].in.clear()
	c.ends[1].in.clear()
	c.ends[1].state = closed
}

// greetTime is how long a dialer waits for the answer to what it has said first; a
// connection, too, has 2·t_max to be made. Letting one join takes t_process.
func greetTime(t election.Timing, asks bool) time.Duration {
	if asks {
		return t.T()
	}
	return 2 * t.TMax
}

// accept answers a hello as the process that owns e does, or its kernel.
func (w *world) accept(e *endpoint) {
	p, from := e.proc, e.other()
	if p.condition != scenario.Alive {
		w.push(from, frame{kind: refusal})
		return
	}
	e.life = p.life
	local := epochOfTime.Add(p.clock.at(w.now))
	if err := p.machine.Admit(local, from.proc.machine.Self(), from.inc); err != nil {
		e.state = closed
		f := frame{kind: refusal, err: err}
		if errors.Is(err, election.ErrRemoved) {
			tombstone, _ := p.machine.Entry(from.proc.rank.ID)
			f.in = &admission{List: []election.Member{tombstone}}
		}
		w.push(from, f)
		return
	}
	w.push(from, frame{kind: welcome})
	w.linkUp(e, from.proc)
}

// dialAnswered hears the answer to a dial, which may come from an earlier life of the
// other process.
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

// linkUp tells e's process.
func (w *world) linkUp(e *endpoint, other *process) {
	p := e.proc
	if e.side == 1 { // the hello and the welcome say who they are from
		e.inc, e.other().inc = e.other().inc, p.incarnation
	}
	e.state, p.met = open, true
	for _, x := range p.peers[e.peer].ends {
		if x != e && x.state == open && x.inc < e.inc {
			x.state = closed
			w.hangUpOn(x, false)
		}
	}
	if e.side == 1 {
		p.peers[e.peer].ends = append(p.peers[e.peer].ends, e)
	}
	w.tidy(p, e.peer)
	w.step(p, election.Event{Kind: election.LinkUp, Peer: other.rank.ID, Rank: other.machine.Self(), Incarnation: e.inc})
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

// hangUpOn ends e's connection for the other side; torn: what is on its way is lost.
func (w *world) hangUpOn(e *endpoint, torn bool) {
	to := e.other()
	if to.state == closed {
		return
	}
	if to.corked {
		w.unmade(e.c)
		return
	}
	if !torn {
		w.push(to, frame{kind: fin})
		return
	}
	unheard := to.in.len() > 0 && to.in.frames[to.in.head].kind == hello
	to.in.clear()
	if unheard {
		to.state = closed
		return
	}
	w.push(to, frame{kind: rst})
}

func (w *world) ended(e *endpoint) {
	if e.c.asks {
		w.answered(e, nil, nil)
		return
	}
	if e.state == closed || e.life != e.proc.life {
		e.state = closed
		return
	}
	was := e.state
	e.state = closed
	p := e.proc
	w.tidy(p, e.peer)
	peer := w.procs[e.peer].rank.ID
	if was == opening {
		w.dialFailed(e, false, nil, nil)
		return
	}
	for _, x := range p.peers[e.peer].ends {
		if x.state == open && x.inc == e.inc {
			return
		}
	}
	w.step(p, election.Event{Kind: election.LinkDown, Peer: peer, Incarnation: e.inc})
}

func (w *world) dial(p *process, to election.ID) {
	slot, ok := w.slots[to]
	if !ok {
		w.checks.fail(w, p, invariant.Driver, "it dials %s, who is no member", to)
		return
	}
	w.checks.reaches(w, p, slot)
	if len(p.peers[slot].ends) == 0 {
		w.open(p, slot)
	}
}

// open dials; what is sent meanwhile goes right behind the hello.
func (w *world) open(p *process, slot int) *endpoint {
	e := w.connect(p, slot, w.newConn(), frame{kind: hello})
	p.peers[slot].ends = append(p.peers[slot].ends, e)
	return e
}

// connect begins a dial, in the manner of TCP: SYN, SYN-ACK, what the dialer says
// first (with more right behind it), and the answer: four trips. With TLS two more go
// between the SYN-ACK and what the dialer says first.
func (w *world) connect(p *process, slot int, c *conn, first frame) *endpoint {
	e, to := &c.ends[0], &c.ends[1]
	e.proc, e.life, e.peer = p, p.life, slot
	e.inc = p.incarnation // until the welcome, what our own hello says
	to.proc, to.peer = w.procs[slot], p.slot
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
	w.dialFailed(e, err == nil, err, f.in)
}

func (w *world) dialFailed(e *endpoint, refused bool, why error, with *admission) {
	w.tidy(e.proc, e.peer)
	ev := election.Event{Kind: election.DialFailed, Peer: w.procs[e.peer].rank.ID, Refused: refused, Err: why}
	if with != nil {
		ev.Member = with.List[0]
	}
	w.step(e.proc, ev)
}

func (w *world) hangup(p *process, to election.ID) {
	slot, ok := w.slots[to]
	if !ok {
		return
	}
	for _, e := range p.peers[slot].ends {
		e.state = closed
		w.hangUpOn(e, false)
	}
	clear(p.peers[slot].ends)
	p.peers[slot].ends = p.peers[slot].ends[:0]
}

// send writes to the newest connection that stands, dialing when there is none.
func (w *world) send(p *process, to election.ID, m *election.Message) {
	w.checks.sends(w, p, m)
	w.flights++
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "sends", Peer: to, Token: m.Token, Message: m, Flight: w.flights})
	}
	slot, ok := w.slots[to]
	if !ok {
		w.checks.fail(w, p, invariant.Driver, "it sends to %s, who is no member", to)
		return
	}
	w.checks.reaches(w, p, slot)
	if w.setup.NoDetector {
		w.post(p, w.procs[slot], m)
		return
	}
	var e *endpoint
	for _, x := range p.peers[slot].ends {
		if x.state == open || e == nil {
			e = x
		}
	}
	if e == nil {
		e = w.open(p, slot)
	}
	w.push(e.other(), frame{kind: message, msg: m, flight: w.flights})
}

// resetLink ends every connection between two members on both sides at once;
// what was on its way is lost.
func (w *world) resetLink(a, b *process) {
	w.note(a, "connections are reset", "to "+string(b.rank.ID))
	w.checks.disturbed(w, a)
	for _, e := range a.peers[b.slot].ends {
		other := e.other()
		if e.corked || other.corked {
			w.unmade(e.c)
			w.push(&e.c.ends[0], frame{kind: rst})
			continue
		}
		e.in.clear()
		other.in.clear()
		w.push(e, frame{kind: rst})
		w.push(other, frame{kind: rst})
	}
}

func (w *world) cutLink(a, b *process) {
	w.checks.disturbed(w, a)
	w.checks.disturbed(w, b)
	w.net.cut[a.slot*w.net.n+b.slot] = true
}

// healLink lets what the kernels kept arrive, within 2·t_max of the heal as if
// sent again; now and then they have given the connection up instead.
func (w *world) healLink(a, b *process) {
	link := a.slot*w.net.n + b.slot
	if w.net.delay[link] == 0 && !w.net.cut[link] {
		return
	}
	w.checks.disturbed(w, a)
	w.checks.disturbed(w, b)
	w.net.delay[link], w.net.cut[link] = 0, false
	held := w.net.held[link]
	w.net.held[link] = nil
	for _, e := range held {
		if e.in.len() == 0 || e.in.due != never {
			continue
		}
		if w.rng.one(4) {
			e.in.clear()
			w.push(e, frame{kind: rst})
			if other := e.other(); other.state == open {
				w.hangUpOn(e, true)
			}
			continue
		}
		w.expect(e, w.now+w.rng.in(scenario.Span{Min: 0, Max: 2 * w.setup.Timing.TMax}))
	}
	w.net.held[link] = held[:0]
}
