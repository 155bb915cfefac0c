// Package transport is batuta's own wire: the connections to the other members, over
// which they speak as package wire has it.
//
// Two members may dial each other in the same instant. Both then keep the
// connection that the member with the greater id dialed (the newest, of equals)
// and retire the other: it is not written to any more, but read until it has
// been idle for 2·t_max, so that no frame on its way is lost.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/refusal"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// Transport is a [network.Network]. The loop owns it; a connection's goroutines only
// move frames between its socket and the loop.
type Transport struct {
	network.Inbox
	site     network.Site
	dialer   Dialer
	self     wire.Handshake // what this member says of itself, but for its address
	address  string         // where the others reach it; "": not known yet
	security Security       // nil: plain
	plain    plainAddrs
	bounds   bounds

	trip        time.Duration // a message there and one back
	connectTime time.Duration // what goes before the first frame of a connection
	kinds       map[election.MessageKind]bool

	ctx      context.Context // of dials
	cancel   context.CancelFunc
	live     sync.WaitGroup // connection goroutines
	acceptor *acceptor
	refusals refusal.Log

	peers    map[election.ID]*peer
	order    uint64
	encoder  wire.Encoder
	last     *election.Message // what frame holds; a beat goes to many
	frame    []byte
	shutting time.Duration // not 0: it is shutting down, and the other ends have so long
}

// Open serves the connections that listener accepts, until [Transport.Shut]. expected
// is how many members there may be: it bounds the connections that wait to be greeted.
// security may be nil: connections are plain then.
func Open(listener net.Listener, dialer Dialer, security Security, site network.Site, expected int) *Transport {
	ctx, cancel := context.WithCancel(context.Background())
	timing := site.Timing
	t := &Transport{
		Inbox:  network.NewInbox(ctx.Done()),
		site:   site,
		dialer: dialer,
		self: wire.Handshake{Version: wire.ProtocolVersion, Cluster: site.Cluster, From: site.Rank(),
			Incarnation: site.Incarnation,
			Algorithm:   site.Algorithm.Name(), Election: site.Election, TMax: timing.TMax, TProcess: timing.TProcess},
		address:  site.Advertise,
		security: security,
		trip:     2 * timing.TMax, connectTime: timing.DialTime(),
		bounds: bounds{frame: 2 * timing.TMax, write: timing.T(), idle: timing.IdleTime()},
		kinds:  kindsOf(site.Algorithm),
		ctx:    ctx, cancel: cancel,
		peers: map[election.ID]*peer{},
		acceptor: &acceptor{
			listener: listener,
			total:    4*expected + 1024,
			perHost:  PerHost(expected),
			crowded:  func() { site.Counters.Refused(string(wire.ReasonCrowded)) },
		},
	}
	t.live.Go(func() { t.acceptor.open(ctx, t.accept) })
	return t
}

// PerHost is how many connections from one host may wait to be greeted, in a cluster
// of so many: all of it may live on one host, and join at once.
func PerHost(expected int) int { return 2*expected + 512 }

// kindsOf are the messages that this member understands.
func kindsOf(a election.Algorithm) map[election.MessageKind]bool {
	kinds := map[election.MessageKind]bool{}
	for _, k := range election.Kinds(a) {
		kinds[k] = true
	}
	return kinds
}

// peer is another member's end.
type peer struct {
	id          election.ID
	addr        string
	incarnation uint64
	conns       []*conn     // that stand, oldest first
	active      *conn       // of them, the one to write to
	dialing     *conn       // the dial under way
	refusal     wire.Reason // why the last connection was refused, by either end; none once one stands
	words       string      // that in words, for Status
	unresolved  string      // why the name in its address did not resolve at the last dial
	guest       bool        // nobody has added it: it is forgotten with its last connection
	misdials    bool        // it has dialed this member for another, which the log has said
}

// Lead implements [network.Network]: every connection serves every view.
func (t *Transport) Lead(election.Token) {}

// Refusal implements [network.Network].
func (t *Transport) Refusal(id election.ID) string {
	if p := t.peers[id]; p != nil {
		return p.words
	}
	return ""
}

// Unresolved implements [network.Network].
func (t *Transport) Unresolved(id election.ID) string {
	if p := t.peers[id]; p != nil {
		return p.unresolved
	}
	return ""
}

// resolves takes note whether the name in a member's address has resolved, by how a dial of it has ended,
// and logs it when it does no longer.
func (t *Transport) resolves(p *peer, err error) {
	was, name := p.unresolved, (*net.DNSError)(nil)
	p.unresolved = ""
	if !errors.As(err, &name) || len(p.conns) > 0 { // the member has connected meanwhile
		return
	}
	p.unresolved = election.Shown(fmt.Sprintf("%s: correct the address %s, or the name server", name, p.addr))
	if was == "" {
		t.site.Log.Warn("the name in a member's address does not resolve", "peer", p.id, "address", p.addr, "name", election.Shown(name.Name), "error", p.unresolved)
	}
}

// Advertise sets the address that this member tells the others. It is for the loop.
func (t *Transport) Advertise(addr string) { t.address = addr }

// Add implements [network.Network].
func (t *Transport) Add(id election.ID, addr string) {
	if p := t.peers[id]; p != nil {
		if p.addr != addr {
			p.unresolved = ""
		}
		p.addr, p.guest = addr, false
		return
	}
	t.peers[id] = &peer{id: id, addr: addr}
}

// Remove implements [network.Network]. A dial under way comes to nothing.
func (t *Transport) Remove(id election.ID) {
	if p := t.peers[id]; p != nil {
		t.drop(p)
		if p.dialing != nil {
			p.dialing.close()
		}
		delete(t.peers, id)
	}
}

// Send implements [network.Network]: on the connection that stands, or on a new one.
func (t *Transport) Send(to election.ID, msg *election.Message) {
	p := t.peers[to]
	if p == nil {
		return
	}
	frame, err := t.encode(msg)
	if err != nil {
		t.site.Log.Error("message not sent", "to", to, "kind", msg.Kind, "error", err)
		return
	}
	c := p.active
	if c == nil {
		c = t.dial(p)
		c.hasQueuedFrames = true
	}
	if err := c.send(frame); errors.Is(err, errOverflow) {
		t.site.Counters.Bad(string(wire.ReasonOverflow))
	}
}

// encode makes a frame of msg, once for all that it goes to.
func (t *Transport) encode(msg *election.Message) ([]byte, error) {
	if msg == t.last {
		return t.frame, nil
	}
	frame, err := t.encoder.Message(msg)
	if err != nil {
		return nil, err
	}
	t.last, t.frame = msg, frame
	return frame, nil
}

// Dial implements [network.Network]. It dials one that was removed and has to be told,
// and this member's own id, too.
func (t *Transport) Dial(to election.ID) {
	e, ok := t.site.Entry(to)
	if ok && e.Address != "" && (e.Departure == election.Removed && t.peers[to] == nil || to == t.self.From.ID) {
		t.Add(to, e.Address)
	}
	p := t.peers[to]
	switch {
	case p == nil:
		t.site.Emit(election.Event{Kind: election.DialFailed, Peer: to})
	case len(p.conns) > 0:
		c := p.conns[len(p.conns)-1]
		t.site.Emit(election.Event{Kind: election.LinkUp, Peer: to, Rank: c.rank, Incarnation: p.incarnation})
	default:
		t.dial(p)
	}
}

// take handles what a connection goroutine has told.
func (t *Transport) take(in incoming) {
	switch {
	case t.shutting > 0:
		t.takeLast(in)
	case in.err != nil:
		t.ended(in.conn, in.err)
	case in.handshake != nil && in.conn.dialed:
		t.handleAnswer(in.conn, in.handshake)
	case in.handshake != nil:
		t.handleHello(in.conn, in.handshake)
	default:
		t.deliver(in.conn, in.message)
	}
}

// activate takes a connection into use.
func (t *Transport) activate(c *conn, h *wire.Handshake) {
	p := t.peers[h.From.ID]
	if p == nil { // admitted, and on no list: it is there as long as its connections
		p = &peer{id: h.From.ID, guest: true}
		t.peers[p.id] = p
	}
	if h.Incarnation != p.incarnation {
		t.drop(p)
		t.peers[p.id], p.incarnation = p, h.Incarnation
	}
	t.order++
	c.peer, c.rank, c.incarnation, c.address, c.order = p, h.From, h.Incarnation, h.Address, t.order
	if !c.dialed {
		c.established()
	}
	p.conns = append(p.conns, c)
	p.refusal, p.words, p.unresolved = "", "", ""
	t.choose(p)
	t.site.Emit(election.Event{Kind: election.LinkUp, Peer: p.id, Rank: h.From, Incarnation: h.Incarnation})
}

// choose keeps the one connection on which both ends agree, and retires the rest.
// When it ends while others stand, one of those comes back into use.
func (t *Transport) choose(p *peer) {
	if len(p.conns) == 0 {
		p.active = nil
		return
	}
	p.active = p.conns[0]
	for _, c := range p.conns[1:] {
		if c.stands().Over(p.active.stands(), t.self.From.ID, p.id) {
			p.active = c
		}
	}
	for _, c := range p.conns {
		c.retire(c != p.active)
	}
	if len(p.conns) > election.MaxConnections {
		i := slices.IndexFunc(p.conns, func(c *conn) bool { return c != p.active })
		t.forget(p.conns[i])
	}
}

// stands is what decides which of several connections is used.
func (c *conn) stands() election.Connection {
	return election.Connection{Dialed: c.dialed, Order: c.order}
}

// deliver hands a message to the Machine if it comes from who it says.
func (t *Transport) deliver(c *conn, m *election.Message) {
	p := c.peer
	switch {
	case p == nil:
		return // refused, hung up, or replaced by another incarnation
	case m.From != p.id || m.To != election.None && m.To != t.self.From.ID:
		t.site.Counters.Bad(string(wire.ReasonID))
		t.refusals.Warn(t.site.Log, hostIn(c.remote()), string(wire.ReasonID), "message in another's name; its connection is closed", "member", p.id, "from", m.From, "to", m.To)
		c.close() // its end is told by the reader
		return
	case !t.kinds[m.Kind] || m.Carried != nil && !t.kinds[m.Carried.Kind]:
		t.site.Counters.Bad(string(wire.ReasonKind))
		return
	}
	t.site.Emit(election.Event{Kind: election.Received, Peer: p.id, Message: m})
}

// ended takes a connection out of use.
func (t *Transport) ended(c *conn, err error) {
	if p := t.peers[c.to]; p != nil && p.dialing == c {
		p.dialing = nil
		t.resolves(p, err)
		ev := election.Event{Refused: errors.Is(err, ErrRefused)}
		if unproven := new(insecure); errors.As(err, &unproven) {
			t.refused(p.id, p.addr, wire.ReasonSecurity, unproven.Error())
			if unproven.member {
				ev.Err = wire.ReasonSecurity.Err()
			}
		}
		t.unreached(p, ev)
		return
	}
	p := c.peer
	if p == nil {
		return
	}
	// What was written to the one in use may be lost, and so may what was on its way on one
	// that is retired, if that is torn: the Machine says it again.
	lost := p.active == c || wasTorn(err)
	t.forget(c)
	if !lost && len(p.conns) > 0 {
		return
	}
	t.site.Emit(election.Event{Kind: election.LinkDown, Peer: p.id, Incarnation: c.incarnation})
	if next := p.active; next != nil {
		t.site.Emit(election.Event{Kind: election.LinkUp, Peer: p.id, Rank: next.rank, Incarnation: next.incarnation})
	}
}

// wasTorn tells a connection that broke from one that the other end has closed, or this one.
func wasTorn(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
}

// unreached tells that a dial has failed: nobody listens there (refused), it has
// told why not, or it kept silent.
func (t *Transport) unreached(p *peer, ev election.Event) {
	ev.Kind, ev.Peer = election.DialFailed, p.id
	t.site.Emit(ev)
}

// forget closes one connection and says nothing of it.
func (t *Transport) forget(c *conn) {
	p := c.peer
	c.peer = nil
	c.close()
	p.conns = slices.DeleteFunc(p.conns, func(other *conn) bool { return other == c })
	if p.active == c {
		t.choose(p)
	}
	if p.guest && len(p.conns) == 0 && t.peers[p.id] == p {
		delete(t.peers, p.id)
	}
}

// drop closes every connection to a member.
func (t *Transport) drop(p *peer) {
	for len(p.conns) > 0 {
		t.forget(p.conns[0])
	}
}

// Hangup implements [network.Network]. It forgets one that is a member no more.
func (t *Transport) Hangup(id election.ID) {
	if e, ok := t.site.Entry(id); ok && e.Departure == election.Removed {
		t.Remove(id)
		return
	}
	if p := t.peers[id]; p != nil {
		t.drop(p)
	}
}

// Linked implements [network.Network].
func (t *Transport) Linked(id election.ID) bool {
	p := t.peers[id]
	return p != nil && len(p.conns) > 0
}

// Links implements [network.Network].
func (t *Transport) Links() int {
	n := 0
	for _, p := range t.peers {
		n += len(p.conns)
	}
	return n
}
