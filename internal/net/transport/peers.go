package transport

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

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
