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
	stands
	state  endState
	in     pipe
	corked bool          // of ends[1]: no connection yet, so what the dialer writes waits there
	until  time.Duration // of ends[0], in its own time: when the dial fails
}

// endAt returns the endpoint of that place, which encodes its connection and side.
func (n *network) endAt(place int32) *endpoint { return &n.conns[place>>1].ends[place&1] }

func (e *endpoint) place() int32 { return e.c.place<<1 | int32(e.side) }

func (e *endpoint) other() *endpoint { return &e.c.ends[1-e.side] }

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

func (p *pipe) len() int { return len(p.frames) - p.head }

func (p *pipe) pop() frame {
	f := p.frames[p.head]
	p.frames[p.head] = frame{}
	if p.head++; p.head == len(p.frames) {
		p.frames, p.head, p.slowest = p.frames[:0], 0, 0
	}
	return f
}

// push puts a frame on its way to e.
func (w *world) push(e *endpoint, f frame) {
	f.at = w.travels(e)
	if k := len(e.in.frames); e.in.len() > 0 && e.in.frames[k-1].at > f.at {
		f.at = e.in.frames[k-1].at
	}
	e.in.frames = append(e.in.frames, f)
	e.in.slowest = max(e.in.slowest, f.at-w.now)
	w.checks.queued(w, e)
	if e.in.len() == 1 && !e.corked {
		w.expect(e, f.at)
	}
}

// travels returns when a frame that leaves now arrives at e.
func (w *world) travels(e *endpoint) time.Duration {
	link := e.other().linkTo(e, w)
	return w.now + w.rng.in(w.net.takes[link]) + w.net.delay[link]
}

// uncork sends what a dialer has written before there was a connection.
func (w *world) uncork(e *endpoint) {
	e.corked = false
	for i := range e.in.frames[e.in.head:] {
		f := &e.in.frames[e.in.head+i]
		if f.at = w.travels(e); i > 0 {
			f.at = max(f.at, e.in.frames[e.in.head+i-1].at)
		}
	}
	if e.in.len() > 0 {
		w.expect(e, e.in.frames[e.in.head].at)
	}
}

// pushAhead puts a frame on its way to e, which is corked, before all that waits there.
func (w *world) pushAhead(e *endpoint, f frame) {
	f.at = w.travels(e)
	e.in.frames = slices.Insert(e.in.frames, e.in.head, f)
	w.checks.queued(w, e)
	w.expect(e, f.at)
}

func (w *world) expect(e *endpoint, at time.Duration) {
	e.in.due = at
	w.queue.push(occurrence{at: at, kind: arrival, place: e.place()})
}

// linkTo returns the index of the link from e to its other side.
func (e *endpoint) linkTo(to *endpoint, w *world) int { return e.proc.slot*w.net.n + to.proc.slot }

// deliver delivers the frames to e that are due.
func (w *world) deliver(e *endpoint) {
	for e.in.len() > 0 && e.in.due <= w.now {
		if w.heldUp(e) {
			e.in.due = never
			return
		}
		f := e.in.pop()
		e.in.due = never
		if e.in.len() > 0 && !e.corked {
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

// heldUp reports whether the head must wait for a heal or a thaw, and arranges a further look
// then. Dials do not wait for a heal: their packets are lost. They do not wait for a thaw: the
// kernel answers.
func (w *world) heldUp(e *endpoint) bool {
	from, n := e.other(), &w.net
	if e.proc.condition == scenario.Off {
		e.in.clear()
		return true
	}
	forth, back := from.linkTo(e, w), e.linkTo(from, w)
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
func (w *world) rejected(e *endpoint) {
	from, head := e.other(), e.in.frames[e.in.head].kind
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
func (w *world) resume(p *process) {
	waiting := p.stalled
	p.stalled = nil
	for _, e := range waiting {
		if e.in.len() > 0 && e.in.due == never {
			w.expect(e, w.now)
		}
	}
	clear(waiting)
	p.stalled = waiting[:0]
}
