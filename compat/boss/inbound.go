package boss

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
)

// Bounds on incoming connections, persistent connections not counted.
const (
	maxGuests   = 256
	maxPerHost  = 16
	acceptPause = 20 * time.Millisecond // when the system cannot accept a connection
)

// guests counts the incoming connections. It may be used on any goroutine.
type guests struct {
	mu    sync.Mutex
	all   int
	hosts map[netip.Addr]int
}

// enter counts a connection of a host, unless there are too many; leave ends that, once.
func (g *guests) enter(host netip.Addr) (leave func(), ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == maxGuests || g.hosts[host] == maxPerHost {
		return nil, false
	}
	g.all++
	g.hosts[host]++
	return sync.OnceFunc(func() { g.leave(host) }), true
}

func (g *guests) leave(host netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	if g.hosts[host]--; g.hosts[host] == 0 {
		delete(g.hosts, host)
	}
}

// acceptAll serves connections until the listener is closed.
func (n *connections) acceptAll() {
	for {
		nc, err := n.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			select {
			case <-time.After(acceptPause):
			case <-n.ctx.Done():
				return
			}
			continue
		}
		host := hostOf(nc)
		leave, ok := n.guests.enter(host)
		if !ok {
			n.site.Counters.Bad("crowded")
			nc.Close()
			continue
		}
		n.live.Go(func() { n.serve(nc, host, leave) })
	}
}

// serve reads the single frame of a connection, and replies or keeps it. A kept connection
// leaves the guests.
func (n *connections) serve(nc net.Conn, host netip.Addr, leave func()) {
	defer leave()
	defer nc.Close()
	stop := context.AfterFunc(n.ctx, func() { nc.Close() })
	defer stop()
	nc.SetDeadline(time.Now().Add(n.timeout))
	f, err := readFrame(nc, func() {})
	if err == nil {
		err = f.from(host)
	}
	if err != nil {
		n.faults.connection(nc, err)
		return
	}
	in := &inbound{frame: f, nc: nc, reply: make(chan reply, 1)}
	// The Machine is stepped between the two.
	if !n.Post(func() { n.take(in) }) || !n.Post(func() { n.settle(in) }) {
		return
	}
	select {
	case r := <-in.reply:
		nc.SetDeadline(time.Now().Add(n.timeout))
		if r.frame != nil {
			if _, err := nc.Write(r.frame); err != nil && r.keep == nil {
				return
			}
		}
		if r.keep != nil {
			leave()
			nc.SetDeadline(time.Time{})
			n.servePersistent(r.keep)
		}
	case <-n.ctx.Done():
	}
}

// take passes a frame's content to the Machine.
func (n *connections) take(in *inbound) {
	n.log.Debug("receives", "type", in.Type, "from", in.IP)
	p := n.sender(in)
	if p == nil || n.site.meet(p, in.frame) != nil {
		return
	}
	in.from = p
	p.slot = in
	switch in.Type {
	case typeIdentification:
		n.site.identified(p, in.frame)
		n.site.deliver(p, in.Batuta)
	case typeElection:
		n.asked(p, in.frame)
	case typeNewBoss:
		if p.kind == legacy {
			p.firm = time.Since(p.pushed) < 2*n.timeout
			n.site.claimed(p)
		} else {
			n.site.deliver(p, in.Batuta)
		}
	}
}

// sender returns the member that a frame is from. An unregistered node is registered when it
// identifies itself.
func (n *connections) sender(in *inbound) *peer {
	id := in.id()
	switch in.Type {
	case typeIdentification, typeNewBoss:
		if in.NodeType != n.wire.NodeType {
			return nil // of a different kind: ignored
		}
	case typeElection:
	default:
		return nil // unknown: skipped
	}
	p := n.peers[id]
	if p == nil {
		a, _ := netip.ParseAddr(string(id))
		return n.enlist(peerAt(a, strconv.Itoa(cmp.Or(in.Port, n.self.Port)))) // they all listen on the same port
	}
	if in.Port != 0 {
		p.addr = net.JoinHostPort(string(id), strconv.Itoa(in.Port))
	}
	return p
}

// enlist adds a member to the list if it is missing and may be added.
func (n *connections) enlist(found batuta.Peer) *peer {
	if p := n.peers[found.ID]; p != nil || found.ID == n.site.Self {
		return p
	}
	m := election.Member{Rank: election.Rank{ID: found.ID}, Address: found.Addr}
	if err := n.site.AdmitJoin(m, 1); err != nil {
		n.log.Debug("not registered", "member", m.ID, "error", err)
		return nil
	}
	n.Add(m.ID, m.Address)
	n.site.Emit(election.Event{Kind: election.JoinRequested, Member: m})
	p := n.peers[m.ID]
	p.fresh = true
	return p
}

// asked handles a call for an election.
func (n *connections) asked(p *peer, f *frame) {
	if p.kind == native {
		n.site.deliver(p, f.Batuta)
		return
	}
	if n.settled(p) {
		return
	}
	n.rounds++
	n.site.hear(p, election.Message{Kind: election.Election, Round: election.Round{Number: n.rounds, Initiator: p.id}})
}

// settle decides on the reply, after the Machine's step.
func (n *connections) settle(in *inbound) {
	var r reply
	if p := in.from; p != nil && p.slot == in {
		p.slot = nil
	}
	switch {
	case in.Type == typeIdentification && in.temporary():
		r.frame = n.self.identification(n.site.leads(), true, in.message) // strangers may ask too
	case in.from == nil:
	case in.Type == typeIdentification && n.site.leads() && !in.boss():
		r.frame = n.self.identification(n.site.leads(), false, nil)
		r.keep = newPersistent(in.from, in.nc, false)
		n.setPersistent(in.from, r.keep)
	case in.Type == typeElection && in.answered:
		r.frame = n.self.bytes(n.self.begin(typeResponse, in.message))
	}
	in.reply <- r
	if r.keep == nil && in.Type == typeIdentification && !in.temporary() && !in.boss() {
		n.pointOut(in.from) // it has come to a wrong member
	}
}
