package batuta

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/wire"
)

// links are the connections to the other members. The loop owns them; a
// connection's goroutines only move frames between its socket and the loop.
//
// Two members may dial each other in the same instant. Both then keep the
// connection that the member with the greater id dialed (the newest, of equals)
// and retire the other: it is not written to any more, but read until it has
// been idle for 2·t_max, so that no frame on its way is lost.
type links struct {
	transport   Transport
	self        wire.Handshake // what this member says of itself
	dialTime    time.Duration  // to be connected, and as much again to be answered
	bounds      bounds
	kinds       map[election.MessageKind]bool
	log         *slog.Logger
	tally       *tally
	admit       func(from Rank, incarnation uint64) error // one that dials us
	admitAnswer func(from Rank, incarnation uint64) error // one that answers our dial
	admitJoin   func(e election.Member, incarnation uint64) error
	rank        func() Rank // this member's, by now
	entry       func(id ID) (election.Member, bool)
	enter       func(e election.Member, holds Token) (list []election.Member, t Token, age time.Duration)
	emit        func(election.Event)
	sameID      func(refusal *wire.Handshake)

	ctx    context.Context // of dials
	cancel context.CancelFunc
	inbox  chan incoming
	live   sync.WaitGroup // connection goroutines
	door   *door

	peers   map[ID]*peer
	order   uint64
	encoder wire.Encoder
	last    *election.Message // what frame holds; a beat goes to many
	frame   []byte
	sent    map[string]uint64 // by kind
}

// peer is another member's end.
type peer struct {
	id          ID
	addr        string
	incarnation uint64
	conns       []*conn     // that stand, oldest first
	active      *conn       // of them, the one to write to
	dialing     *conn       // the dial under way
	refusal     wire.Reason // why the last connection was refused, by either end; none once one stands
	words       string      // that in words, for Status
}

// dialAttempts bounds how often one dial meets a connection that is made and
// then reset: the other process is just going, and refuses in a moment.
const dialAttempts = 3

// maxConns is how many connections one member may have standing.
const maxConns = 4

func (l *links) serve() {
	l.live.Go(func() { l.door.open(l.ctx, l.accept) })
}

func (l *links) background(f func(context.Context)) { l.live.Go(func() { f(l.ctx) }) }

func (l *links) arrivals() <-chan incoming { return l.inbox }

func (l *links) lead(Token) {} // every link serves every view

func (l *links) traffic() (sent map[string]uint64, links int) { return l.sent, l.standing() }

// address is where a member listens, as far as is known.
func (l *links) address(id ID) string {
	if p := l.peers[id]; p != nil {
		return p.addr
	}
	return ""
}

// refusal says why the last connection to a member was refused, by either end; ""
// once one stands.
func (l *links) refusal(id ID) string {
	if p := l.peers[id]; p != nil {
		return p.words
	}
	return ""
}

// add makes a member known, or gives it another address to dial.
func (l *links) add(id ID, addr string) {
	if p := l.peers[id]; p != nil {
		p.addr = addr
		return
	}
	l.peers[id] = &peer{id: id, addr: addr}
}

// remove forgets a member. A dial under way comes to nothing.
func (l *links) remove(id ID) {
	if p := l.peers[id]; p != nil {
		l.drop(p)
		if p.dialing != nil {
			p.dialing.close()
		}
		delete(l.peers, id)
	}
}

// send delivers msg if it can: on the link that stands, or on a new one.
func (l *links) send(to ID, msg *election.Message) {
	p := l.peers[to]
	if p == nil {
		return
	}
	frame, err := l.encode(msg)
	if err != nil {
		l.log.Error("message not sent", "to", to, "kind", msg.Kind, "error", err)
		return
	}
	c := p.active
	if c == nil {
		c = l.dial(p)
		c.laden = true
	}
	if err := c.send(frame); errors.Is(err, errOverflow) {
		l.tally.bad(wire.ReasonOverflow)
	}
	l.sent[string(msg.Kind)]++
}

// encode makes a frame of msg, once for all that it goes to.
func (l *links) encode(msg *election.Message) ([]byte, error) {
	if msg == l.last {
		return l.frame, nil
	}
	frame, err := l.encoder.Message(msg)
	if err != nil {
		return nil, err
	}
	l.last, l.frame = msg, frame
	return frame, nil
}

// open dials a member if no link stands, or one that was removed and has to be told.
func (l *links) open(to ID) {
	if e, ok := l.entry(to); ok && e.Gone == election.Removed && l.peers[to] == nil && e.Address != "" {
		l.add(to, e.Address)
	}
	p := l.peers[to]
	switch {
	case p == nil:
		l.emit(election.Event{Kind: election.DialFailed, Peer: to})
	case len(p.conns) > 0:
		c := p.conns[len(p.conns)-1]
		l.emit(election.Event{Kind: election.LinkUp, Peer: to, Rank: c.rank, Incarnation: p.incarnation})
	default:
		l.dial(p)
	}
}

// dial begins a dial to p unless one is under way, and gives its connection,
// which takes frames already: they follow the hello at once.
func (l *links) dial(p *peer) *conn {
	if p.dialing != nil {
		return p.dialing
	}
	hello := l.self
	hello.From = l.rank()
	hello.Kind, hello.To = wire.KindHello, p.id
	frame, err := new(wire.Encoder).Handshake(&hello)
	if err != nil {
		panic(err) // Validate bounds what it is made of
	}
	c := &conn{dialed: true, to: p.id, bounds: l.bounds, live: &l.live, queue: slices.Clone(frame), flushing: true}
	p.dialing = c
	l.live.Go(func() { l.reach(c, p.addr, frame) })
	return c
}

// reach makes a dialed connection and serves it to its end.
func (l *links) reach(c *conn, addr string, hello []byte) {
	ctx, cancel := context.WithTimeout(l.ctx, 2*l.dialTime)
	defer cancel()
	for attempt := 1; ; attempt++ {
		answer, err := l.greet(ctx, c, addr)
		if err == nil {
			l.post(incoming{conn: c, handshake: answer})
			break
		}
		if attempt == dialAttempts || !wasReset(err) {
			l.lost(c, err)
			return
		}
		c.disconnect(slices.Clone(hello))
	}
	cancel()
	l.receive(c)
}

// greet connects, says hello and hears the answer. Each is a message there and one
// back, and has a bound of its own.
func (l *links) greet(ctx context.Context, c *conn, addr string) (*wire.Handshake, error) {
	nc, err := dialWithin(ctx, l.dialTime, l.transport, addr)
	if err != nil {
		return nil, err
	}
	until, _ := ctx.Deadline()
	if own := time.Now().Add(l.dialTime); own.Before(until) {
		until = own
	}
	if err := c.connect(nc, until); err != nil {
		return nil, err
	}
	c.flush()
	body, err := c.read(wire.MaxHandshake)
	if err != nil {
		return nil, err
	}
	return wire.DecodeHandshake(body)
}

func dialWithin(ctx context.Context, limit time.Duration, t Transport, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return t.Dial(ctx, addr)
}

// wasReset tells a process that has just gone: it let us connect and then did not.
func wasReset(err error) bool {
	return err == io.EOF || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// accept serves a connection that another has dialed.
func (l *links) accept(nc net.Conn) {
	c := &conn{bounds: l.bounds, live: &l.live, host: hostOf(nc)}
	if c.connect(nc, time.Now().Add(l.dialTime)) != nil {
		nc.Close()
		return
	}
	l.door.enter(c)
	l.live.Go(func() {
		defer l.door.leave(c)
		body, err := c.read(wire.MaxHandshake)
		if err == nil {
			var hello *wire.Handshake
			if hello, err = wire.DecodeHandshake(body); err == nil {
				l.post(incoming{conn: c, handshake: hello})
				l.receive(c)
				return
			}
		}
		l.lost(c, err)
	})
}

// receive hands on what arrives until the connection ends.
func (l *links) receive(c *conn) {
	for {
		body, err := c.read(wire.MaxFrame)
		if err == nil {
			var m *election.Message
			if m, err = wire.DecodeMessage(body); err == nil {
				l.post(incoming{conn: c, message: m})
				continue
			}
		}
		l.lost(c, err)
		return
	}
}

// lost tells the loop that a connection has ended.
func (l *links) lost(c *conn, err error) {
	var b *wire.BadFrame
	if errors.As(err, &b) {
		l.tally.bad(b.Reason)
		l.log.Warn("bad frame; its connection is closed", "from", c.remote(), "reason", string(b.Reason), "error", err)
	}
	c.close()
	l.post(incoming{conn: c, err: err})
}

func (l *links) post(in incoming) {
	select {
	case l.inbox <- in:
	case <-l.ctx.Done():
	}
}

// take handles what a connection goroutine has told.
func (l *links) take(in incoming) {
	switch {
	case in.err != nil:
		l.ended(in.conn, in.err)
	case in.handshake != nil && in.conn.dialed:
		l.answered(in.conn, in.handshake)
	case in.handshake != nil:
		l.greeted(in.conn, in.handshake)
	default:
		l.deliver(in.conn, in.message)
	}
}

// stand takes a connection into use.
func (l *links) stand(c *conn, h *wire.Handshake) {
	p := l.peers[h.From.ID]
	if p == nil { // admitted, yet without an address: never with a fixed list
		c.close()
		return
	}
	if h.Incarnation != p.incarnation {
		l.drop(p)
		p.incarnation = h.Incarnation
	}
	l.order++
	c.peer, c.rank, c.incarnation, c.address, c.order = p, h.From, h.Incarnation, h.Address, l.order
	if !c.dialed {
		c.established()
	}
	p.conns = append(p.conns, c)
	p.refusal, p.words = "", ""
	l.choose(p)
	l.emit(election.Event{Kind: election.LinkUp, Peer: p.id, Rank: h.From, Incarnation: h.Incarnation})
}

// choose keeps the one connection on which both ends agree, and retires the rest.
// When it ends while others stand, one of those comes back into use.
func (l *links) choose(p *peer) {
	if len(p.conns) == 0 {
		p.active = nil
		return
	}
	p.active = slices.MaxFunc(p.conns, func(a, b *conn) int {
		if a.dialed != b.dialed {
			if a.dialed == (l.self.From.ID.Compare(p.id) > 0) {
				return 1
			}
			return -1
		}
		return int(a.order) - int(b.order)
	})
	for _, c := range p.conns {
		c.retire(c != p.active)
	}
	if len(p.conns) > maxConns {
		i := slices.IndexFunc(p.conns, func(c *conn) bool { return c != p.active })
		l.forget(p.conns[i])
	}
}

// deliver hands a message to the Machine if it comes from who it says.
func (l *links) deliver(c *conn, m *election.Message) {
	p := c.peer
	switch {
	case p == nil:
		return // refused, hung up, or replaced by another incarnation
	case m.From != p.id || m.To != election.None && m.To != l.self.From.ID:
		l.tally.bad(wire.ReasonID)
		l.log.Warn("message in another's name; its connection is closed", "member", p.id, "from", m.From, "to", m.To)
		c.close() // its end is told by the reader
		return
	case !l.kinds[m.Kind] || m.Carried != nil && !l.kinds[m.Carried.Kind]:
		l.tally.bad(wire.ReasonKind)
		return
	}
	l.tally.received(m.Kind)
	l.emit(election.Event{Kind: election.Received, Peer: p.id, Message: m})
}

// ended takes a connection out of use.
func (l *links) ended(c *conn, err error) {
	if p := l.peers[c.to]; p != nil && p.dialing == c {
		p.dialing = nil
		l.unreached(p, election.Event{Refused: errors.Is(err, ErrRefused)})
		return
	}
	p := c.peer
	if p == nil {
		return
	}
	written := p.active == c // what was written to it may be lost; the Machine says it again
	l.forget(c)
	if !written && len(p.conns) > 0 {
		return
	}
	l.emit(election.Event{Kind: election.LinkDown, Peer: p.id, Incarnation: c.incarnation})
	if next := p.active; next != nil {
		l.emit(election.Event{Kind: election.LinkUp, Peer: p.id, Rank: next.rank, Incarnation: next.incarnation})
	}
}

// unreached tells that a dial has failed: nobody listens there (refused), it has
// told why not, or it kept silent.
func (l *links) unreached(p *peer, ev election.Event) {
	ev.Kind, ev.Peer = election.DialFailed, p.id
	l.emit(ev)
}

// forget closes one connection and says nothing of it.
func (l *links) forget(c *conn) {
	p := c.peer
	c.peer = nil
	c.close()
	p.conns = slices.DeleteFunc(p.conns, func(other *conn) bool { return other == c })
	if p.active == c {
		l.choose(p)
	}
}

// drop closes every connection to a member.
func (l *links) drop(p *peer) {
	for len(p.conns) > 0 {
		l.forget(p.conns[0])
	}
}

// hangUp closes every connection to a member, as the Machine wishes, and forgets one
// that is a member no more.
func (l *links) hangUp(id ID) {
	if e, ok := l.entry(id); ok && e.Gone == election.Removed {
		l.remove(id)
		return
	}
	if p := l.peers[id]; p != nil {
		l.drop(p)
	}
}

// met reports whether a connection to a member has ever stood.
func (l *links) met() bool { return l.order > 0 }

// standing is how many connections stand.
func (l *links) standing() int {
	n := 0
	for _, p := range l.peers {
		n += len(p.conns)
	}
	return n
}

// shut says goodbye: no more is accepted, what is written is delivered, and the
// other ends have wait to close theirs. It returns when every connection
// goroutine has.
func (l *links) shut(wait time.Duration) {
	l.door.shut()
	for _, id := range slices.Sorted(maps.Keys(l.peers)) {
		p := l.peers[id]
		for _, c := range p.conns {
			c.finish(wait)
		}
	}
	l.outlast(wait)
	l.cancel()
	for _, p := range l.peers {
		l.drop(p)
		if p.dialing != nil {
			p.dialing.close()
		}
	}
	l.live.Wait()
}

// outlast takes in the ends of connections until none stands, and no dial is under
// way that has something to say, or wait is over.
func (l *links) outlast(wait time.Duration) {
	over := time.NewTimer(wait)
	defer over.Stop()
	for l.standing() > 0 || l.reaching() {
		select {
		case in := <-l.inbox:
			switch c := in.conn; {
			case in.err != nil && c.peer != nil:
				l.forget(c)
			case in.err != nil:
				if p := l.peers[c.to]; p != nil && p.dialing == c {
					p.dialing = nil
				}
			case in.handshake != nil && c.dialed:
				c.finish(wait) // it was written right behind our hello
			}
		case <-over.C:
			return
		}
	}
}

// reaching reports whether a dial is under way that has something to say.
func (l *links) reaching() bool {
	for _, p := range l.peers {
		if p.dialing != nil && p.dialing.laden {
			return true
		}
	}
	return false
}
