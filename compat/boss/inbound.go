package boss

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Bounds on connections that others make, those that last not counted.
const (
	maxGuests   = 256
	maxPerHost  = 16
	acceptPause = 20 * time.Millisecond // when the system cannot accept one
)

// hosts counts connections by host. It may be used on any goroutine.
type hosts struct {
	mu    sync.Mutex
	count map[netip.Addr]int
}

// enter counts one in, unless the host has too many.
func (h *hosts) enter(a netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[a] >= maxPerHost {
		return false
	}
	h.count[a]++
	return true
}

func (h *hosts) leave(a netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.count[a]--; h.count[a] == 0 {
		delete(h.count, a)
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
		if !n.hosts.enter(host) {
			n.site.Counters.Bad("crowded")
			nc.Close()
			continue
		}
		select {
		case n.guests <- struct{}{}:
			n.live.Go(func() { n.serve(nc, host) })
		default:
			n.hosts.leave(host)
			n.site.Counters.Bad("crowded")
			nc.Close()
		}
	}
}

func hostOf(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// inbound is a frame that has come in on a new connection.
type inbound struct {
	*frame
	nc    net.Conn
	reply chan reply // the loop's word on it, one

	// The loop's alone.
	from     *peer             // nil: not one to deal with
	answered bool              // an election of a lower member
	message  *election.Message // for a batuta member, in the reply
}

// reply is what to do with a connection.
type reply struct {
	frame []byte      // to write; nil: nothing
	keep  *persistent // nil: close it then
}

// answer has an election answered; m may be nil.
func (in *inbound) answer(m *election.Message) {
	if in.Type == typeElection {
		in.answered = true
		if in.message == nil {
			in.message = m
		}
	}
}

// report puts a Report into the reply to "who are you?"; false: there is no room.
func (in *inbound) report(m *election.Message) bool {
	if in.Type != typeIdentification || !in.temporary() || in.message != nil {
		return false
	}
	in.message = m
	return true
}

// serve reads the one frame of a connection, and replies or keeps it.
func (n *connections) serve(nc net.Conn, host netip.Addr) {
	once := sync.OnceFunc(func() { <-n.guests; n.hosts.leave(host) })
	defer once()
	defer nc.Close()
	stop := context.AfterFunc(n.ctx, func() { nc.Close() })
	defer stop()
	nc.SetDeadline(time.Now().Add(n.timeout))
	f, err := readFrame(nc, func() {})
	if err == nil {
		err = f.from(host)
	}
	if err != nil {
		n.broken(nc, err)
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
			once()
			nc.SetDeadline(time.Time{})
			n.servePersistent(r.keep)
		}
	case <-n.ctx.Done():
	}
}

// broken counts and logs a frame that makes no sense. That a connection ends is
// no fault.
func (n *connections) broken(nc net.Conn, err error) {
	var b *badFrame
	reason := ""
	switch {
	case errors.As(err, &b):
		reason = b.reason
	case errors.Is(err, io.ErrUnexpectedEOF):
		reason = "cut"
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = "slow"
	case errors.Is(err, syscall.ETIMEDOUT): // no frame at all: the kernel gave the connection up
		n.refusals.Warn(n.log, hostOf(nc).String(), "silent", "the other end's machine does not answer; the connection is closed", "peer", nc.RemoteAddr(), "error", err)
		return
	default:
		return
	}
	n.site.Counters.Bad(reason)
	n.refusals.Warn(n.log, hostOf(nc).String(), reason, "bad frame; its connection is closed", "from", nc.RemoteAddr(), "reason", reason, "error", err)
}

// take hands the Machine what a frame says.
func (n *connections) take(in *inbound) {
	n.log.Debug("receives", "type", in.Type, "from", in.IP)
	p := n.sender(in)
	if p == nil || n.meet(p, in.frame) != nil {
		return
	}
	in.from = p
	p.slot = in
	switch in.Type {
	case typeIdentification:
		n.identified(p, in.frame)
		n.deliver(p, in.Batuta)
	case typeElection:
		n.asked(p, in.frame)
	case typeNewBoss:
		if p.kind == legacy {
			p.firm = time.Since(p.pushed) < 2*n.timeout
			n.claimed(p)
		} else {
			n.deliver(p, in.Batuta)
		}
	}
}

// sender is the member that a frame is from. A node that is not known yet is
// registered when it makes itself known.
func (n *connections) sender(in *inbound) *peer {
	id := in.id()
	switch in.Type {
	case typeIdentification, typeNewBoss:
		if in.NodeType != n.wire.NodeType {
			return nil // of another kind: no business with us
		}
	case typeElection:
	default:
		return nil // not ours: skipped
	}
	p := n.peers[id]
	if p == nil {
		a, _ := netip.ParseAddr(string(id))
		return n.enlist(peerAt(a, port(cmp.Or(in.Port, n.self.Port)))) // they all listen on one port
	}
	if in.Port != 0 {
		p.addr = net.JoinHostPort(string(id), port(in.Port))
	}
	return p
}

// asked hears an election called.
func (n *connections) asked(p *peer, f *frame) {
	if p.kind == native {
		n.deliver(p, f.Batuta)
		return
	}
	if n.settled(p) {
		return
	}
	n.rounds++
	n.hear(p, election.Message{Kind: election.Election, Round: election.Round{Number: n.rounds, Initiator: p.id}})
}

// settle decides on the reply, now that the Machine has had its say.
func (n *connections) settle(in *inbound) {
	var r reply
	if p := in.from; p != nil && p.slot == in {
		p.slot = nil
	}
	switch {
	case in.Type == typeIdentification && in.temporary():
		r.frame = n.bytes(n.identification(true, in.message)) // strangers may ask too
	case in.from == nil:
	case in.Type == typeIdentification && n.leads() && !in.boss():
		r.frame = n.bytes(n.identification(false, nil))
		r.keep = newPersistent(in.from, in.nc, false)
		n.setPersistent(in.from, r.keep)
	case in.Type == typeElection && in.answered:
		r.frame = n.bytes(n.own(typeResponse, in.message))
	}
	in.reply <- r
	if r.keep == nil && in.Type == typeIdentification && !in.temporary() && !in.boss() {
		n.pointOut(in.from) // it has come to the wrong one
	}
}

// bytes encodes a frame of our own; nil, and an error in the log, if it is too long.
func (n *connections) bytes(f *frame) []byte {
	b, err := encode(f)
	if errors.Is(err, errTooLong) && f.Batuta != nil && f.Batuta.Message != nil && f.Batuta.Message.States != nil {
		short := *f.Batuta.Message
		short.States = nil // what the leader knows of the members is no news they need
		f.Batuta.Message = &short
		b, err = encode(f)
	}
	if err != nil {
		n.log.Error("frame not sent", "error", err)
	}
	return b
}
