package sim

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
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
	pairs := members * members
	n.n, n.used = members, 0
	n.takes, n.cut, n.rejects = sized(n.takes, pairs), sized(n.cut, pairs), sized(n.rejects, pairs)
	n.delay, n.held = sized(n.delay, pairs), sized(n.held, pairs)
}

// setLatencies gives each link its latency.
func (w *wires) setLatencies() {
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

func (w *wires) newConn() *conn {
	n := &w.net
	if n.used == len(n.conns) {
		n.conns = append(n.conns, &conn{place: int32(n.used)})
	}
	c := n.conns[n.used]
	n.used++
	c.asks, c.missed, c.slowest = false, false, 0
	for i := range c.ends {
		in := c.ends[i].in
		in.clear()
		c.ends[i] = endpoint{c: c, side: i, in: in}
	}
	return c
}

// synced answers a dial as a kernel: it makes the connection if a process listens, stopped or
// not, and else refuses.
func (w *wires) synced(e *endpoint) {
	from := e.far()
	if e.c.missed || e.proc.condition == scenario.Dead {
		w.unmade(e.c)
		w.push(from, frame{kind: refusal})
		return
	}
	w.push(from, frame{kind: synAck})
}

// hangUpOn ends e's connection for the other side; if torn, what is on its way is lost.
func (w *wires) hangUpOn(e *endpoint, torn bool) {
	to := e.far()
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
	unheard := to.in.size() > 0 && to.in.frames[to.in.head].kind == hello
	to.in.clear()
	if unheard {
		to.state = closed
		return
	}
	w.push(to, frame{kind: rst})
}

func (w *wires) hangup(p *process, to election.ID) {
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

// resetLink ends every connection between two members on both sides at once; what is on its way
// is lost.
func (w *wires) resetLink(a, b *process) {
	w.note(a, "connections are reset", "to "+string(b.rank.ID))
	w.checks.disturbed(&w.scene, a)
	for _, e := range a.peers[b.slot].ends {
		other := e.far()
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

func (w *wires) cutLink(a, b *process) {
	w.checks.disturbed(&w.scene, a)
	w.checks.disturbed(&w.scene, b)
	w.net.cut[a.slot*w.net.n+b.slot] = true
}

// rejectLink makes a firewall at b answer what comes from a with a reset.
func (w *wires) rejectLink(a, b *process) {
	w.cutLink(a, b)
	w.net.rejects[a.slot*w.net.n+b.slot] = true
}

// lastOn returns when the last delayed frame on a link arrives; now, if there is none.
func (w *wires) lastOn(link int) time.Duration {
	last := w.now
	if w.net.delay[link] == 0 {
		return last
	}
	for _, c := range w.net.conns[:w.net.used] {
		for side := range c.ends {
			if e := &c.ends[side]; e.state != closed && e.in.size() > 0 && e.far().linkTo(e, &w.scene) == link {
				last = max(last, e.in.frames[len(e.in.frames)-1].at)
			}
		}
	}
	return last
}

// healLink delivers what the kernels kept, within 2·t_max of the heal as if resent. Sometimes
// they have given up the connection instead.
func (w *wires) healLink(a, b *process) {
	link := a.slot*w.net.n + b.slot
	if w.net.delay[link] == 0 && !w.net.cut[link] {
		return
	}
	w.checks.disturbed(&w.scene, a)
	w.checks.disturbed(&w.scene, b)
	late := w.lastOn(link) // later messages over the same connection come after it
	w.checks.disturbedAt(a, late)
	w.checks.disturbedAt(b, late)
	w.net.delay[link], w.net.cut[link], w.net.rejects[link] = 0, false, false
	held := w.net.held[link]
	w.net.held[link] = nil
	for _, e := range held {
		if e.in.size() == 0 || e.in.due != never {
			continue
		}
		if w.rng.One(4) {
			e.in.clear()
			w.push(e, frame{kind: rst})
			if other := e.far(); other.state == open {
				w.hangUpOn(e, true)
			}
			continue
		}
		w.expect(e, w.now+w.rng.In(scenario.Span{Min: 0, Max: 2 * w.setup.Timing.TMax}))
	}
	w.net.held[link] = held[:0]
}

// What follows makes connections: the dial, the handshake and refusals.

// connected continues a dial that got through. TLS comes next, if the cluster has it; the answer
// has its own time limit.
func (w *wires) connected(e *endpoint) {
	if !w.setup.Timing.Secured {
		w.greets(e)
	} else if e.state == opening && e.life == e.proc.life {
		e.until = e.proc.clock.at(w.now) + 2*w.setup.Timing.TMax
		w.pushAhead(e.far(), frame{kind: secure})
	}
}

// answerSecure is TLS's answer to a dialer. The process gives it, not the kernel.
func (w *wires) answerSecure(e *endpoint) {
	if e.proc.condition != scenario.Alive {
		w.unmade(e.c)
		w.push(e.far(), frame{kind: refusal})
		return
	}
	w.push(e.far(), frame{kind: secured})
}

// greets sends what the dialer has written; the answer to it has its own time limit too.
func (w *wires) greets(e *endpoint) {
	if e.state == opening && e.life == e.proc.life {
		e.until = e.proc.clock.at(w.now) + greetTime(w.setup.Timing, e.c.asks)
		w.uncork(e.far())
	}
}

// unmade drops a dial before there was a connection, with all that was to follow.
func (w *wires) unmade(c *conn) {
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

// sameTimes returns nil if both have the same t_max and t_process, else the error of a driver.
func (p *process) sameTimes(other *process) error {
	if a, b := p.timing, other.timing; a.TMax != b.TMax || a.TProcess != b.TProcess {
		return election.ErrForeign
	}
	return nil
}

// tidy forgets closed ends.
func (w *wires) tidy(p *process, slot int) {
	p.peers[slot].ends = slices.DeleteFunc(p.peers[slot].ends, func(e *endpoint) bool { return e.state == closed })
}

// dialed returns the dial under way, or begins a dial; later messages follow the hello at once.
func (w *wires) dialed(p *process, slot int) *endpoint {
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
func (w *wires) connect(p *process, slot int, c *conn, first frame) *endpoint {
	e, to := &c.ends[0], &c.ends[1]
	e.proc, e.life, e.peer = p, p.life, slot
	e.inc = p.incarnation                                             // until the welcome, that of the hello
	if to.proc, to.peer = w.listed(p, slot), p.slot; to.proc == nil { // a newcomer asks by a name, which leads to the new address
		to.proc, c.missed = w.procs[slot], !c.asks
	}
	w.push(to, frame{kind: syn})
	to.corked = true
	w.push(to, first)
	e.until = p.clock.at(w.now) + 2*w.setup.Timing.TMax
	w.queue.push(occurrence{at: p.clock.when(e.until), kind: dialTimeout, place: e.key(), life: p.life})
	return e
}

// What follows chooses between several connections to a member, as when two members dial each other
// at once. [election.Connection] has the rule, for production and for the lab. A connection out
// of use ends after it has been idle, at each end separately.

// usage is an end's state of an open connection.
type usage struct {
	rank    election.Rank // of the other side, as it presented itself
	order   uint64        // position in the order of opening
	retired bool          // not in use
	idleAt  time.Duration // when it ends if it is retired and idle, in own time
}

func (e *endpoint) connection() election.Connection {
	return election.Connection{Dialed: e.side == 0, Order: e.order}
}

// inUse returns the open connection that p uses to a member; nil: there is none.
func (w *wires) inUse(p *process, slot int) (used *endpoint) {
	peer := w.procs[slot].rank.ID
	for _, e := range p.peers[slot].ends {
		if e.state == open && (used == nil || e.connection().Over(used.connection(), p.rank.ID, peer)) {
			used = e
		}
	}
	return used
}

// choose retires all connections to a member except the used one, and ends the oldest retired
// connection if there are too many.
func (w *wires) choose(p *process, slot int) {
	used := w.inUse(p, slot)
	var oldest *endpoint
	n := 0
	for _, e := range p.peers[slot].ends {
		if e.state != open {
			continue
		}
		n++
		w.retire(e, e != used)
		if e != used && (oldest == nil || e.order < oldest.order) {
			oldest = e
		}
	}
	if n > election.MaxConnections {
		w.give(oldest)
	}
	w.tidy(p, slot)
}

func (w *wires) retire(e *endpoint, on bool) {
	if e.retired == on {
		return
	}
	if e.retired = on; on {
		w.idles(e)
		w.awaitIdle(e, e.proc.clock.when(e.idleAt))
	}
}

// idles starts the idle time again, after a message or a retirement.
func (w *wires) idles(e *endpoint) {
	e.idleAt = e.proc.clock.at(w.now) + w.setup.Timing.IdleTime()
}

func (w *wires) awaitIdle(e *endpoint, at time.Duration) {
	w.queue.push(occurrence{at: at, kind: idleTimeout, place: e.key(), life: e.life})
}

// give closes a connection.
func (w *wires) give(e *endpoint) {
	e.state = closed
	w.hangUpOn(e, false)
}

// What follows is the parts of a connection: two ends, and a pipe of frames to each.

type endState uint8

const (
	opening endState = iota // dialed, not answered; or not yet accepted
	open
	closed
)

// conn is a connection; ends[0] dialed.
type conn struct {
	ends   [2]endpoint
	place  int32 // in network.conns
	asks   bool  // it serves only to ask for admission
	missed bool  // no process is at that address

	slowest time.Duration // the longest time that any of its frames has traveled
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
	frames []frame
	head   int
	due    time.Duration // when the head's arrival is scheduled; never: it is not
}

func (p *pipe) clear() {
	clear(p.frames)
	p.frames, p.head, p.due = p.frames[:0], 0, never
}

func (p *pipe) size() int { return len(p.frames) - p.head }

func (p *pipe) pop() frame {
	f := p.frames[p.head]
	p.frames[p.head] = frame{}
	if p.head++; p.head == len(p.frames) {
		p.frames, p.head = p.frames[:0], 0
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
	e.c.slowest = max(e.c.slowest, f.at-w.now)
	if f.kind == message { // the network answers each message to an ended connection by an end
		w.checks.queued(&w.scene, e)
	}
	if e.in.size() == 1 && !e.corked {
		w.expect(e, f.at)
	}
}

// travels returns when a frame that leaves now arrives at e.
func (w *wires) travels(e *endpoint) time.Duration {
	link := e.far().linkTo(e, &w.scene)
	return w.now + w.rng.In(w.net.takes[link]) + w.net.delay[link]
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
	at := w.now + w.rng.In(w.net.takes[link]) + w.net.delay[link]
	w.queue.push(occurrence{at: at, kind: datagramArrival, place: w.datagrams.put(flight{to, m, w.flights})})
}
