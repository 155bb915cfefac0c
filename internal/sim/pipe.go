package sim

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file has the parts of a connection: two ends, and a pipe of frames to each.

type endState uint8

const (
	opening endState = iota // dialed, not answered; or not yet accepted
	open
	closed
)

// conn is a connection; ends[0] dialed.
type conn struct {
	ends  [2]endpoint
	place int32 // in network.conns
	asks  bool  // it serves only to ask for admission
}

// endpoint is a side of a connection and what is on its way there.
type endpoint struct {
	c    *conn
	side int
	proc *process
	life uint64
	peer int    // slot of the other side's id
	inc  uint64 // the other side's incarnation, once open
	usage
	state  endState
	in     pipe
	corked bool          // of ends[1]: no connection yet, so what the dialer writes waits there
	until  time.Duration // of ends[0], in its own time: when the dial fails
}

// endAt returns the endpoint of that place, which encodes its connection and side.
func (n *network) endAt(place int32) *endpoint { return &n.conns[place>>1].ends[place&1] }

func (e *endpoint) key() int32 { return e.c.place<<1 | int32(e.side) }

func (e *endpoint) far() *endpoint { return &e.c.ends[1-e.side] }

type frameKind uint8

const (
	syn      frameKind = iota + 1 // the dial; a kernel answers it, whatever its process does
	synAck                        // the connection is made
	secure                        // TLS begins
	secured                       // the answer to it
	hello                         // the dialer presents itself
	welcome                       // the answer to it
	refusal                       // no process listens, or not admitted (err)
	ask                           // the dial of a newcomer, which asks for admission
	admitted                      // the newcomer is admitted
	message                       //
	fin                           // the end, after everything before it
	rst                           // the end, at once
)

type frame struct {
	at     time.Duration
	kind   frameKind
	msg    *election.Message
	flight uint64
	err    error
	in     *admission
	inc    uint64 // of a refusal: that of the process that refuses
}

// dials reports whether a frame makes a connection: a cut drops it and does not hold it.
func (k frameKind) dials() bool { return k == syn || k == synAck }

// pipe is a queue of frames. Only the arrival of its head is scheduled.
type pipe struct {
	frames  []frame
	head    int
	due     time.Duration // when the head's arrival is scheduled; never: it is not
	slowest time.Duration // the longest time that any of the frames travels
}

func (p *pipe) clear() {
	clear(p.frames)
	p.frames, p.head, p.due, p.slowest = p.frames[:0], 0, never, 0
}

func (p *pipe) size() int { return len(p.frames) - p.head }

func (p *pipe) pop() frame {
	f := p.frames[p.head]
	p.frames[p.head] = frame{}
	if p.head++; p.head == len(p.frames) {
		p.frames, p.head, p.slowest = p.frames[:0], 0, 0
	}
	return f
}

// wires carry frames and datagrams between processes, in the manner of the kernels. What arrives is
// handled by the world.
type wires struct {
	scene
	datagrams   datagrams
	flights     uint64
	connections uint64 // opened so far, each counted at both its ends
}

// push puts a frame on its way to e.
func (w *wires) push(e *endpoint, f frame) {
	f.at = w.travels(e)
	if k := len(e.in.frames); e.in.size() > 0 && e.in.frames[k-1].at > f.at {
		f.at = e.in.frames[k-1].at
	}
	e.in.frames = append(e.in.frames, f)
	e.in.slowest = max(e.in.slowest, f.at-w.now)
	w.checks.queued(&w.scene, e)
	if e.in.size() == 1 && !e.corked {
		w.expect(e, f.at)
	}
}

// travels returns when a frame that leaves now arrives at e.
func (w *wires) travels(e *endpoint) time.Duration {
	link := e.far().linkTo(e, &w.scene)
	return w.now + w.rng.in(w.net.takes[link]) + w.net.delay[link]
}

// uncork sends what a dialer has written before there was a connection.
func (w *wires) uncork(e *endpoint) {
	e.corked = false
	for i := range e.in.frames[e.in.head:] {
		f := &e.in.frames[e.in.head+i]
		if f.at = w.travels(e); i > 0 {
			f.at = max(f.at, e.in.frames[e.in.head+i-1].at)
		}
	}
	if e.in.size() > 0 {
		w.expect(e, e.in.frames[e.in.head].at)
	}
}

// pushAhead puts a frame on its way to e, which is corked, before all that waits there.
func (w *wires) pushAhead(e *endpoint, f frame) {
	f.at = w.travels(e)
	e.in.frames = slices.Insert(e.in.frames, e.in.head, f)
	w.checks.queued(&w.scene, e)
	w.expect(e, f.at)
}

func (w *wires) expect(e *endpoint, at time.Duration) {
	e.in.due = at
	w.queue.push(occurrence{at: at, kind: arrival, place: e.key()})
}

// linkTo returns the index of the link from e to its other side.
func (e *endpoint) linkTo(to *endpoint, w *scene) int { return e.proc.slot*w.net.n + to.proc.slot }

// heldUp reports whether the head must wait for a heal or a thaw, and arranges a further look
// then. Dials do not wait for a heal: their packets are lost. They do not wait for a thaw: the
// kernel answers.
func (w *wires) heldUp(e *endpoint) bool {
	from, n := e.far(), &w.net
	if e.proc.condition == scenario.Off {
		e.in.clear()
		return true
	}
	forth, back := from.linkTo(e, &w.scene), e.linkTo(from, &w.scene)
	if n.rejects[forth] && !e.in.frames[e.in.head].resets() {
		w.rejected(e)
		return true
	}
	if head := e.in.frames[e.in.head].kind; n.cut[forth] && !n.rejects[forth] || n.cut[back] && !n.rejects[back] && head.dials() {
		if head.dials() {
			w.unmade(e.c)
			return true
		}
		n.held[forth] = append(n.held[forth], e)
		return true
	}
	if e.proc.condition == scenario.Frozen && e.in.frames[e.in.head].kind != syn {
		e.proc.stalled = append(e.proc.stalled, e)
		return true
	}
	return false
}

// resets reports whether a frame is a reset, which a firewall lets through.
func (f *frame) resets() bool { return f.kind == rst || f.kind == refusal && f.err == nil }

// rejected handles that a firewall has answered the head on its way to e with a reset.
func (w *wires) rejected(e *endpoint) {
	from, head := e.far(), e.in.frames[e.in.head].kind
	switch head {
	case syn:
		w.unmade(e.c)
		w.push(from, frame{kind: refusal})
	case synAck: // the reset goes to a kernel that has no process for it yet; the dial runs out
		w.unmade(e.c)
	default:
		e.in.clear()
		from.in.clear()
		w.push(from, frame{kind: rst})
	}
}

// resume delivers what has waited for a process.
func (w *wires) resume(p *process) {
	waiting := p.stalled
	p.stalled = nil
	for _, e := range waiting {
		if e.in.size() > 0 && e.in.due == never {
			w.expect(e, w.now)
		}
	}
	clear(waiting)
	p.stalled = waiting[:0]
}

// flight is a message without a connection, as in textbooks, when the detector is off.
type flight struct {
	to *process
	m  *election.Message
	no uint64
}

// datagrams keeps the messages on their way, and the free places.
type datagrams struct {
	flights []flight
	free    []int32
}

func (m *datagrams) reset() {
	clear(m.flights)
	m.flights, m.free = m.flights[:0], m.free[:0]
}

func (m *datagrams) put(f flight) int32 {
	if k := len(m.free); k > 0 {
		place := m.free[k-1]
		m.free, m.flights[place] = m.free[:k-1], f
		return place
	}
	m.flights = append(m.flights, f)
	return int32(len(m.flights) - 1)
}

func (m *datagrams) take(place int32) flight {
	f := m.flights[place]
	m.flights[place] = flight{}
	m.free = append(m.free, place)
	return f
}

func (w *wires) post(from, to *process, m *election.Message) {
	link := from.slot*w.net.n + to.slot
	at := w.now + w.rng.in(w.net.takes[link]) + w.net.delay[link]
	w.queue.push(occurrence{at: at, kind: datagramArrival, place: w.datagrams.put(flight{to, m, w.flights})})
}
