package sim

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// network connects the processes in the manner of TCP. Bytes of a connection arrive in order or
// not at all. A cut holds them back until it heals or a reset drops them. A host refuses dials
// if no process listens. The kernel of a stopped process accepts and buffers.
type network struct {
	n       int
	cut     []bool          // from·n + to
	rejects []bool          // from·n + to: cut links that a firewall answers with a reset
	takes   []scenario.Span // from·n + to: the usual latency
	delay   []time.Duration // from·n + to: on top of that
	held    [][]*endpoint   // from·n + to: pipes that wait for a heal
	conns   []*conn         // all that were opened in this run
	used    int

	slowest time.Duration // the longest of takes
}

func (n *network) reset(members int) {
	if n.n != members {
		*n = network{n: members, takes: make([]scenario.Span, members*members), cut: make([]bool, members*members), rejects: make([]bool, members*members),
			delay: make([]time.Duration, members*members), held: make([][]*endpoint, members*members)}
	}
	clear(n.cut)
	clear(n.rejects)
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
		w.ended(e, f.kind == rst)
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
	w.idles(e)
	w.logReceipt(e.proc, f.msg, f.flight)
	w.step(e.proc, election.Event{Kind: election.Received, Message: f.msg})
}

func (w *world) logReceipt(p *process, m *election.Message, flight uint64) {
	if w.log != nil {
		w.log(trace.Entry{At: w.now, Member: w.name(p), What: "receives", Peer: m.From, Token: m.Token,
			Message: m, Flight: flight})
	}
}

// synced answers a dial as a kernel: it makes the connection if a process listens, stopped or
// not, and else refuses.
func (w *world) synced(e *endpoint) {
	from := e.other()
	if e.proc.condition == scenario.Dead {
		w.unmade(e.c)
		w.push(from, frame{kind: refusal})
		return
	}
	w.push(from, frame{kind: synAck})
}

// hangUpOn ends e's connection for the other side; if torn, what is on its way is lost.
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
	w.step(p, election.Event{Kind: election.LinkDown, Peer: peer, Incarnation: e.inc})
	if next != nil {
		w.step(p, election.Event{Kind: election.LinkUp, Peer: peer, Rank: next.rank, Incarnation: next.inc})
	}
}

func (w *world) hangup(p *process, to election.ID) {
	slot, ok := w.slots[to]
	if !ok {
		return
	}
	for _, e := range p.peers[slot].ends {
		w.give(e)
	}
	clear(p.peers[slot].ends)
	p.peers[slot].ends = p.peers[slot].ends[:0]
}

// send writes to the connection in use, or dials if there is none.
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
	if w.setup.NoDetector {
		w.checks.reaches(w, p, slot)
		w.post(p, w.procs[slot], m)
		return
	}
	e := w.inUse(p, slot)
	if e == nil { // an open connection needs no address
		w.checks.reaches(w, p, slot)
		e = w.dialed(p, slot)
	}
	w.push(e.other(), frame{kind: message, msg: m, flight: w.flights})
}

// resetLink ends every connection between two members on both sides at once; what is on its way
// is lost.
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

// rejectLink makes a firewall at b answer what comes from a with a reset.
func (w *world) rejectLink(a, b *process) {
	w.cutLink(a, b)
	w.net.rejects[a.slot*w.net.n+b.slot] = true
}

// lastOn returns when the last delayed frame on a link arrives; now, if there is none.
func (w *world) lastOn(link int) time.Duration {
	last := w.now
	if w.net.delay[link] == 0 {
		return last
	}
	for _, c := range w.net.conns[:w.net.used] {
		for side := range c.ends {
			if e := &c.ends[side]; e.state != closed && e.in.len() > 0 && e.other().linkTo(e, w) == link {
				last = max(last, e.in.frames[len(e.in.frames)-1].at)
			}
		}
	}
	return last
}

// healLink delivers what the kernels kept, within 2·t_max of the heal as if resent. Sometimes
// they have given up the connection instead.
func (w *world) healLink(a, b *process) {
	link := a.slot*w.net.n + b.slot
	if w.net.delay[link] == 0 && !w.net.cut[link] {
		return
	}
	w.checks.disturbed(w, a)
	w.checks.disturbed(w, b)
	late := w.lastOn(link) // later messages over the same connection come after it
	w.checks.disturbedAt(a, late)
	w.checks.disturbedAt(b, late)
	w.net.delay[link], w.net.cut[link], w.net.rejects[link] = 0, false, false
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
