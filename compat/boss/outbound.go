package boss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// dialAttempts bounds how often one exchange meets a connection that is made and
// then reset: the other process is just going, and refuses in a moment.
const dialAttempts = 3

func port(n int) string { return strconv.Itoa(n) }

// exchange is a temporary connection to a member: one frame, at most one reply.
type exchange struct {
	to     *peer
	addr   string
	frames [][]byte // one connection each; the last one's reply counts
	mute   bool     // the last frame has no reply
	silent bool     // no reply is a reply too
	done   func(f *frame)
	failed func(refused bool)
	wait   time.Duration // for all of it; default 2·t_max
	late   func()        // instead of failed, when it has come to nothing without being refused; may be nil
}

// start runs x beside the loop. Either done (f is nil if there was no reply) or
// failed is called on the loop.
func (n *connections) start(x *exchange) {
	if x.to.flights >= maxFlights {
		n.failed(x.to, false)
		return
	}
	x.to.flights++
	x.addr = x.to.addr
	n.out.Add(1)
	n.live.Go(func() {
		f, err := n.run(x)
		n.out.Done()
		n.Post(func() { n.end(x, f, err) })
	})
}

// run does the exchange.
func (n *connections) run(x *exchange) (f *frame, err error) {
	ctx, cancel := context.WithTimeout(n.ctx, cmp.Or(x.wait, n.timeout))
	defer cancel()
	for i, out := range x.frames {
		last := i == len(x.frames)-1
		for attempt := 1; ; attempt++ {
			f, err = n.once(ctx, x.addr, out, !last || x.mute)
			if err == io.EOF && x.silent && last {
				return nil, nil
			}
			if attempt == dialAttempts || !wasReset(err) {
				break
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

// once sends one frame on a connection of its own and reads the reply, if there
// is to be one.
func (n *connections) once(ctx context.Context, addr string, out []byte, mute bool) (*frame, error) {
	nc, err := n.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if _, err := nc.Write(out); err != nil || mute {
		return nil, err
	}
	f, err := readFrame(nc, func() {})
	if err != nil {
		n.broken(nc, err)
		return nil, err
	}
	if err = f.from(hostOf(nc)); err != nil {
		n.broken(nc, err)
	}
	return f, err
}

// dial connects from the address that this member is known by.
func (n *connections) dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	if a, err := netip.ParseAddr(n.self.IP); err == nil {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	}
	nc, err := d.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		n.log.Error("this member's id is no address of this machine: give it one as its id", "id", n.self.IP, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return nc, nil
}

func wasReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// end tells what has come of an exchange.
func (n *connections) end(x *exchange, f *frame, err error) {
	p := x.to
	p.flights--
	if n.peers[p.id] != p {
		return
	}
	n.log.Debug("exchange is over", "member", p.id, "error", err)
	if err == nil && f != nil {
		if err = n.meet(p, f); err != nil {
			n.site.Emit(election.Event{Kind: election.DialFailed, Peer: p.id, Err: err})
			return
		}
	}
	if err == nil && f == nil && !p.up {
		if p.kind == unknown || p.gone { // something has taken the connection and said nothing
			n.failed(p, false)
			return
		}
		n.meetProcess(p, p.incarnation)
	}
	if err != nil && x.late != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		x.late()
		return
	}
	if err != nil {
		if x.failed != nil {
			x.failed(errors.Is(err, syscall.ECONNREFUSED))
		}
		n.failed(p, errors.Is(err, syscall.ECONNREFUSED))
		return
	}
	if x.done != nil {
		x.done(f)
	}
}

// identify asks a member who it is and, if it is a batuta one, tells it m.
func (n *connections) identify(p *peer, m *election.Message) {
	asks := m != nil && m.Kind == election.Probe
	n.log.Debug("sends", "type", typeIdentification, "to", p.id, "temporary", true)
	n.start(&exchange{to: p, frames: [][]byte{n.bytes(n.identification(true, m))}, done: func(f *frame) {
		if p.kind == legacy {
			n.known(p, f, asks)
			return
		}
		n.deliver(p, f.Batuta)
	}})
}

// ask calls an election at a higher member. One that is known to be dead is asked
// too (docs/sources.md, "Scrapper"): it counts as up until that has failed once more.
func (n *connections) ask(p *peer, m *election.Message) {
	if p.kind == native {
		n.askNow(p, m)
		return
	}
	// An election has a foreign boss drop its subordinates and announce itself anew:
	// who has begun to lead meanwhile is followed instead.
	n.log.Debug("sends", "type", typeIdentification, "to", p.id, "temporary", true)
	n.start(&exchange{to: p, frames: [][]byte{n.bytes(n.identification(true, nil))}, failed: n.knocked(p),
		wait: n.site.Timing.TProcess, late: func() { n.askNow(p, m) }, done: func(f *frame) {
			switch {
			case p.kind == legacy && f.boss():
				n.known(p, f, true)
			case p.kind == native || !n.site.View().Defined():
				n.askNow(p, m)
			}
		}})
}

// knocked is what to tell when a member that may be asked although it is down could
// not be reached.
func (n *connections) knocked(p *peer) func(refused bool) {
	return func(bool) {
		if !p.up {
			n.site.Emit(election.Event{Kind: election.PeerUp, Peer: p.id})
		}
	}
}

func (n *connections) askNow(p *peer, m *election.Message) {
	n.log.Debug("sends", "type", typeElection, "to", p.id)
	n.start(&exchange{to: p, frames: [][]byte{n.bytes(n.own(typeElection, m))}, silent: true,
		failed: n.knocked(p),
		done: func(f *frame) {
			switch {
			case f == nil || f.Type != typeResponse: // it leaves the election to us
			case p.kind == legacy:
				n.hear(p, election.Message{Kind: election.Answer, Round: m.Round})
			default:
				n.deliver(p, f.Batuta)
			}
		}})
}

// announce makes this member known as the boss. Who has just called an election
// hears first that there is somebody higher.
func (n *connections) announce(p *peer, m *election.Message) {
	if m != nil && p.slot != nil && p.slot.Type == typeElection {
		if p.id.Compare(n.site.Self) > 0 {
			return // it does not ask us, and will lead in a moment
		}
		p.slot.answer(&election.Message{Kind: election.Answer, Election: m.Election, From: m.From, To: m.To,
			Highest: m.Highest, Eligibility: m.Eligibility, Digest: m.Digest, Round: p.slot.round()})
		n.announceAgain(p) // others may be waiting, too
		if p.kind == legacy && time.Since(p.told) < n.site.Timing.T()/2 {
			return // it is about to come: told twice it might come twice, and leave both times
		}
	}
	p.told = time.Now()
	var frames [][]byte
	if n.wire.Announce != Identification {
		f := n.own(typeNewBoss, m)
		f.NodeType = n.wire.NodeType
		frames = append(frames, n.bytes(f))
	}
	if n.wire.Announce != NewBoss {
		var again *election.Message
		if n.wire.Announce == Identification {
			again = m
		}
		frames = append(frames, n.bytes(n.identification(true, again)))
	}
	n.log.Debug("sends", "type", typeNewBoss, "to", p.id)
	n.start(&exchange{to: p, frames: frames, mute: n.wire.Announce == NewBoss, silent: true, done: func(f *frame) {
		if f != nil && p.kind == legacy {
			n.known(p, f, false)
		}
	}})
}

// round is the round of an election that was called here.
func (in *inbound) round() election.Round {
	if in.Batuta == nil || in.Batuta.Message == nil {
		return election.Round{}
	}
	return in.Batuta.Message.inward().Round
}

// openPersistent presents this member to its boss and keeps the connection.
func (n *connections) openPersistent(p *peer) {
	if p.opening {
		return
	}
	p.opening = true
	out, addr := n.bytes(n.identification(false, nil)), p.addr
	n.log.Debug("sends", "type", typeIdentification, "to", p.id, "temporary", false)
	n.live.Go(func() {
		nc, f, err := n.present(addr, out)
		var l *persistent
		if err == nil && f.boss() {
			l = newPersistent(p, nc, true)
		}
		if !n.Post(func() { n.presented(p, l, f, err) }) || l == nil {
			if nc != nil {
				nc.Close()
			}
			return
		}
		defer nc.Close()
		defer context.AfterFunc(n.ctx, func() { nc.Close() })()
		n.servePersistent(l)
	})
}

// present makes the connection and reads who is at the other end.
func (n *connections) present(addr string, out []byte) (net.Conn, *frame, error) {
	ctx, cancel := context.WithTimeout(n.ctx, n.timeout)
	defer cancel()
	nc, err := n.dial(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	if _, err = nc.Write(out); err == nil {
		var f *frame
		if f, err = readFrame(nc, func() {}); err == nil {
			if err = f.from(hostOf(nc)); err == nil && f.Type == typeIdentification {
				return nc, f, nil
			}
			err = cmp.Or(err, bad("id", "a %s for an answer", f.Type))
		}
		n.broken(nc, err)
	}
	nc.Close()
	return nil, nil, err
}

// presented hears what has come of openPersistent. A boss that closes or says that
// it is none is asked once more who it is.
func (n *connections) presented(p *peer, l *persistent, f *frame, err error) {
	p.opening = false
	p.retry = time.Now().Add(n.site.Timing.Heartbeat)
	switch {
	case n.peers[p.id] != p:
	case err != nil && !wasReset(err):
		n.failed(p, errors.Is(err, syscall.ECONNREFUSED))
		return
	case err != nil:
		n.identify(p, nil)
		return
	default:
		if err := n.meet(p, f); err != nil {
			n.site.Emit(election.Event{Kind: election.DialFailed, Peer: p.id, Err: err})
			break
		}
		n.identified(p, f)
		if l != nil && !n.leads() {
			n.setPersistent(p, l)
			return
		}
	}
	if l != nil {
		l.close()
	}
}
