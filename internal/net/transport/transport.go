// Package transport is batuta's own wire: the connections to peers, with the frames of package
// wire.
//
// Two members may dial each other in the same instant. Both then keep the connection that the
// member with the greater id dialed (the newest, of equals) and retire the rest. A retired
// connection is not written to any more, but read until it has been idle for 2·t_max, so that no
// frame on its way is lost.
package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/refusal"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// Transport is a [network.Network], used only in turns of the node; a connection's goroutine
// has one for each frame that it reads.
type Transport struct {
	network.Inbox
	connector
	peers
	site        network.Site
	address     string        // where peers reach it; "": not known yet
	connectTime time.Duration // the time before the first frame of a connection
	kinds       map[election.MessageKind]bool

	ctx      context.Context // of dials
	cancel   context.CancelFunc
	acceptor *acceptor
	refusals refusal.Log

	encoder  wire.Encoder
	last     *election.Message // the message in frame; a heartbeat goes to many
	frame    []byte
	shutting time.Duration // not 0: it is shutting down, and gives peers this long
	drained  func()        // ends that when nothing is left to wait for
}

// Open serves the connections that listener accepts, until [Transport.Shut]. expected is the
// expected number of members, which bounds the connections with an unfinished handshake. security
// may be nil: connections are plain then.
func Open(listener net.Listener, dialer Dialer, security Security, site network.Site, expected int) *Transport {
	ctx, cancel := context.WithCancel(context.Background())
	timing := site.Timing
	t := &Transport{
		Inbox: network.NewInbox(site, ctx.Done()),
		connector: connector{dialer: dialer, security: security, counters: site.Counters, log: site.Log,
			self: wire.Handshake{Version: wire.ProtocolVersion, Cluster: site.Cluster, From: site.Rank(),
				Incarnation: site.Incarnation,
				Algorithm:   site.Algorithm.Name(), Election: site.Election, TMax: timing.TMax, TProcess: timing.TProcess},
			trip:   2 * timing.TMax,
			bounds: bounds{frame: 2 * timing.TMax, write: timing.T(), idle: timing.IdleTime()}},
		peers:       peers{me: site.Rank().ID, byID: map[election.ID]*peer{}},
		site:        site,
		address:     site.Advertise,
		connectTime: timing.DialTime(),
		kinds:       kindsOf(site.Algorithm),
		ctx:         ctx, cancel: cancel,
		acceptor: &acceptor{
			listener: listener,
			total:    4*expected + 1024,
			perHost:  PerHost(expected),
			crowded:  func() { site.Counters.Refused(string(wire.ReasonCrowded)) },
			failed:   acceptFailures(listener.Addr().String(), site.Log),
		},
	}
	t.live.Go(func() { t.acceptor.open(ctx, t.accept) })
	return t
}

// acceptFailures returns a function that logs why a listener accepts no connections, once a minute at most.
func acceptFailures(at string, to *slog.Logger) func(error) {
	var lines refusal.Log
	return func(err error) {
		if isClosed(err) {
			to.Error("this member accepts no more connections, because its listener was closed: restart it", "at", at)
			return
		}
		lines.Warn(to, at, "", "this member cannot accept connections, and tries again: see the limit of open files", "at", at, "error", err)
	}
}

// PerHost returns how many connections from a single host may have an unfinished handshake, in a
// cluster of expected members: all may run on the same host, and join at once.
func PerHost(expected int) int { return 2*expected + 512 }

// kindsOf returns the kinds of message that this member understands.
func kindsOf(a election.Algorithm) map[election.MessageKind]bool {
	kinds := map[election.MessageKind]bool{}
	for _, k := range election.Kinds(a) {
		kinds[k] = true
	}
	return kinds
}

// Lead implements [network.Network]: connections do not depend on the view.
func (t *Transport) Lead(election.Token) {}

// Refusal implements [network.Network].
func (t *Transport) Refusal(id election.ID) string {
	if p := t.byID[id]; p != nil {
		return p.words
	}
	return ""
}

// Unresolved implements [network.Network].
func (t *Transport) Unresolved(id election.ID) string {
	if p := t.byID[id]; p != nil {
		return p.unresolved
	}
	return ""
}

// resolves records from the result of a dial whether the name in a member's address resolved, and
// logs when it stops to.
func (t *Transport) resolves(p *peer, err error) {
	was, name := p.unresolved, (*net.DNSError)(nil)
	p.unresolved = ""
	if !errors.As(err, &name) || len(p.conns) > 0 { // the member has connected meanwhile
		return
	}
	p.unresolved = election.Shown(fmt.Sprintf("%s: correct the address %s, or the name server", name, p.addr))
	if was == "" {
		t.log.Warn("the name in a member's address does not resolve", "peer", p.id, "address", p.addr, "name", election.Shown(name.Name), "error", p.unresolved)
	}
}

// Advertise sets the address that this member sends to its peers. To be called in a turn.
func (t *Transport) Advertise(addr string) { t.address = addr }

// Add implements [network.Network].
func (t *Transport) Add(id election.ID, addr string) {
	if p := t.byID[id]; p != nil {
		if p.addr != addr {
			p.unresolved = ""
		}
		p.addr, p.guest = addr, false
		return
	}
	t.byID[id] = &peer{id: id, addr: addr}
}

// Remove implements [network.Network]. It cancels a dial.
func (t *Transport) Remove(id election.ID) {
	if p := t.byID[id]; p != nil {
		t.cut(p)
		delete(t.byID, id)
	}
}

// Send implements [network.Network]: on the present connection, or on a new connection.
func (t *Transport) Send(to election.ID, msg *election.Message) {
	p := t.byID[to]
	if p == nil {
		return
	}
	frame, err := t.encode(msg)
	if err != nil {
		t.log.Error("message not sent", "to", to, "kind", msg.Kind, "error", err)
		return
	}
	c := p.active
	if c == nil {
		c = t.dial(p)
		c.hasQueuedFrames = true
	}
	if err := c.send(frame); errors.Is(err, errOverflow) {
		t.counters.Bad(string(wire.ReasonOverflow))
	}
}

// encode makes a frame of msg, once for all its receivers.
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

// Dial implements [network.Network]. It also dials a removed member that has to be notified, and
// this member's own id.
func (t *Transport) Dial(to election.ID) {
	e, ok := t.site.Entry(to)
	if ok && e.Address != "" && (e.Departure == election.Removed && t.byID[to] == nil || to == t.self.From.ID) {
		t.Add(to, e.Address)
	}
	p := t.byID[to]
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

// take handles what a connection goroutine has passed on.
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

// deliver passes a message to the Machine if its sender is the peer.
func (t *Transport) deliver(c *conn, m *election.Message) {
	p := c.peer
	switch {
	case p == nil:
		return // refused, hung up, or replaced by a different incarnation
	case m.From != p.id || m.To != election.None && m.To != t.self.From.ID:
		t.counters.Bad(string(wire.ReasonID))
		t.refusals.Warn(t.log, hostIn(c.remote()), string(wire.ReasonID), "message in another's name; its connection is closed", "member", p.id, "from", m.From, "to", m.To)
		c.close() // the reader reports its end
		return
	case !t.kinds[m.Kind] || m.Carried != nil && !t.kinds[m.Carried.Kind]:
		t.counters.Bad(string(wire.ReasonKind))
		return
	}
	t.site.Emit(election.Event{Kind: election.Received, Peer: p.id, Message: m})
}

// ended takes a connection out of use.
func (t *Transport) ended(c *conn, err error) {
	if p := t.byID[c.to]; p != nil && p.dialing == c {
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
	// Frames written to the active connection may be lost. Frames on their way over a retired
	// connection may be lost too if it broke: the Machine resends them.
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

// wasTorn distinguishes a connection that broke from a connection that either end closed.
func wasTorn(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
}

// Hangup implements [network.Network]. It removes a peer that is no member any more.
func (t *Transport) Hangup(id election.ID) {
	if e, ok := t.site.Entry(id); ok && e.Departure == election.Removed {
		t.Remove(id)
		return
	}
	if p := t.byID[id]; p != nil {
		t.drop(p)
	}
}

// Shut implements [network.Network]: it accepts no more, delivers what is written, and gives peers
// wait to close their ends.
func (t *Transport) Shut(wait time.Duration) {
	t.shutting = max(wait, 1)
	t.acceptor.shut()
	for _, id := range slices.Sorted(maps.Keys(t.byID)) {
		for _, c := range t.byID[id].conns {
			c.finish(wait)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, wait)
	defer cancel()
	if t.drained = cancel; t.busy() {
		t.Await(ctx.Done())
	}
	t.cancel()
	for _, p := range t.byID {
		t.cut(p)
	}
	t.live.Wait()
}

// takeLast handles what a connection goroutine passes on while the Transport shuts down.
func (t *Transport) takeLast(in incoming) {
	switch c := in.conn; {
	case in.err != nil && c.peer != nil:
		t.forget(c)
	case in.err != nil:
		if p := t.byID[c.to]; p != nil && p.dialing == c {
			p.dialing = nil
		}
	case in.handshake != nil && c.dialed:
		c.finish(t.shutting) // the frames were written right after our hello
	}
	if !t.busy() {
		t.drained()
	}
}

// peers are the connections to each member: which of them to write to, and which are left. A turn of
// the node uses them; they send nothing, and reach nothing of a Transport.
type peers struct {
	me    election.ID
	byID  map[election.ID]*peer
	order uint64 // of the newest connection
}

// peer is the state of the connections to a member.
type peer struct {
	id          election.ID
	addr        string
	incarnation uint64
	conns       []*conn     // established, oldest first
	active      *conn       // of conns, the connection to write to
	dialing     *conn       // the dial under way
	refusal     wire.Reason // why the last connection was refused, by either end; none once a connection exists
	words       string      // the same as text, for Status
	unresolved  string      // why the name in its address did not resolve at the last dial
	guest       bool        // not on the list: removed with its last connection
	misdials    bool        // it dialed this process in place of a different member, which was logged
}

// choose keeps the connection on which both ends agree, and retires the rest. When it ends while
// connections are left, the best of them comes back into use.
func (s *peers) choose(p *peer) {
	if len(p.conns) == 0 {
		p.active = nil
		return
	}
	p.active = p.conns[0]
	for _, c := range p.conns[1:] {
		if c.properties().Over(p.active.properties(), s.me, p.id) {
			p.active = c
		}
	}
	for _, c := range p.conns {
		c.retire(c != p.active)
	}
	if len(p.conns) > election.MaxConnections {
		i := slices.IndexFunc(p.conns, func(c *conn) bool { return c != p.active })
		s.forget(p.conns[i])
	}
}

// properties returns the properties by which a connection is chosen.
func (c *conn) properties() election.Connection {
	return election.Connection{Dialed: c.dialed, Order: c.order}
}

// forget closes a connection without an event.
func (s *peers) forget(c *conn) {
	p := c.peer
	c.peer = nil
	c.close()
	p.conns = slices.DeleteFunc(p.conns, func(other *conn) bool { return other == c })
	if p.active == c {
		s.choose(p)
	}
	if p.guest && len(p.conns) == 0 && s.byID[p.id] == p {
		delete(s.byID, p.id)
	}
}

// drop closes every connection to a member.
func (s *peers) drop(p *peer) {
	for len(p.conns) > 0 {
		s.forget(p.conns[0])
	}
}

// Linked implements [network.Network].
func (s *peers) Linked(id election.ID) bool {
	p := s.byID[id]
	return p != nil && len(p.conns) > 0
}

// Links implements [network.Network].
func (s *peers) Links() int {
	n := 0
	for _, p := range s.byID {
		n += len(p.conns)
	}
	return n
}

// busy reports whether a link is left, or a dial that has frames to send.
func (s *peers) busy() bool {
	if s.Links() > 0 {
		return true
	}
	for _, p := range s.byID {
		if p.dialing != nil && p.dialing.hasQueuedFrames {
			return true
		}
	}
	return false
}

// enter takes a connection into use, by its handshake.
func (s *peers) enter(c *conn, h *wire.Handshake) {
	p := s.byID[h.From.ID]
	if p == nil { // admitted, but on no list: it exists as long as its connections
		p = &peer{id: h.From.ID, guest: true}
		s.byID[p.id] = p
	}
	if h.Incarnation != p.incarnation {
		s.drop(p)
		s.byID[p.id], p.incarnation = p, h.Incarnation
	}
	s.order++
	c.peer, c.rank, c.incarnation, c.address, c.order = p, h.From, h.Incarnation, h.Address, s.order
	if !c.dialed {
		c.await(time.Time{})
	}
	p.conns = append(p.conns, c)
	p.refusal, p.words, p.unresolved = "", "", ""
	s.choose(p)
}

// cut closes every connection to a member, and cancels a dial.
func (s *peers) cut(p *peer) {
	s.drop(p)
	if p.dialing != nil {
		p.dialing.close()
	}
}
