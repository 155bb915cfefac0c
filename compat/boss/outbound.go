package boss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/refusal"
)

// exchange is a temporary connection to a member: a frame, at most a single reply.
type exchange struct {
	to     *peer
	addr   string
	frames [][]byte // each on its own connection; the reply to the last counts
	mute   bool     // the last frame has no reply
	silent bool     // no reply is a reply too
	done   func(f *frame)
	failed func(refused bool)
	wait   time.Duration // for all of it; default 2·t_max
	late   func()        // instead of failed, if it came to nothing without a refusal; may be nil
}

// start runs x outside of turns. Either done (f is nil if there was no reply) or failed is
// called in a turn of the node.
func (n *connections) start(x *exchange) {
	if x.to.flights >= maxFlights {
		n.site.failed(x.to, false)
		return
	}
	x.to.flights++
	x.addr = x.to.addr
	n.out.Add(1)
	n.live.Go(func() {
		f, err := n.dialer.run(x)
		n.out.Done()
		n.Post(func() { n.end(x, f, err) })
	})
}

// end reports the result of an exchange.
func (n *connections) end(x *exchange, f *frame, err error) {
	p := x.to
	p.flights--
	if n.peers[p.id] != p {
		return
	}
	n.log.Debug("exchange is over", "member", p.id, "error", err)
	if err == nil && f != nil {
		if err = n.site.meet(p, f); err != nil {
			n.site.Emit(election.Event{Kind: election.DialFailed, Peer: p.id, Err: err})
			return
		}
	}
	if err == nil && f == nil && !p.up {
		if p.kind == unknown || p.gone { // the connection was taken without a reply
			n.site.failed(p, false)
			return
		}
		n.site.meetProcess(p, p.incarnation)
	}
	if err != nil && x.late != nil && !errors.Is(err, syscall.ECONNREFUSED) {
		x.late()
		return
	}
	if err != nil {
		if x.failed != nil {
			x.failed(errors.Is(err, syscall.ECONNREFUSED))
		}
		n.site.failed(p, errors.Is(err, syscall.ECONNREFUSED))
		return
	}
	if x.done != nil {
		x.done(f)
	}
}

// question returns the frame that asks a member to identify itself, with m for a batuta member.
func (n *connections) question(m *election.Message) [][]byte {
	return [][]byte{n.self.identification(n.site.leads(), true, m)}
}

// identify asks a member to identify itself, and sends m to a batuta member.
func (n *connections) identify(p *peer, m *election.Message) {
	asks := m != nil && m.Kind == election.Probe
	n.log.Debug("sends", "type", typeIdentification, "to", p.id, "temporary", true)
	n.start(&exchange{to: p, frames: n.question(m), done: func(f *frame) {
		if p.kind == legacy {
			n.known(p, f, asks)
			return
		}
		n.site.deliver(p, f.Batuta)
	}})
}

// ask calls an election at a higher member, even at a dead member (docs/sources.md, "Scrapper"):
// it counts as up until that has failed again.
func (n *connections) ask(p *peer, m *election.Message) {
	if p.kind == native {
		n.askNow(p, m)
		return
	}
	// An election makes a foreign boss drop its subordinates and announce itself again. A member
	// that has begun to lead meanwhile is followed instead.
	n.log.Debug("sends", "type", typeIdentification, "to", p.id, "temporary", true)
	n.start(&exchange{to: p, frames: n.question(nil), failed: n.knocked(p),
		wait: n.site.Timing.TProcess, late: func() { n.askNow(p, m) }, done: func(f *frame) {
			switch {
			case p.kind == legacy && f.boss():
				n.known(p, f, true)
			case p.kind == native || !n.site.View().Defined():
				n.askNow(p, m)
			}
		}})
}

// knocked returns the event for a member that may be asked although it is down, and could not be
// reached.
func (n *connections) knocked(p *peer) func(refused bool) {
	return func(bool) {
		if !p.up {
			n.site.Emit(election.Event{Kind: election.PeerUp, Peer: p.id})
		}
	}
}

func (n *connections) askNow(p *peer, m *election.Message) {
	n.log.Debug("sends", "type", typeElection, "to", p.id)
	n.start(&exchange{to: p, frames: [][]byte{n.self.bytes(n.self.begin(typeElection, m))}, silent: true,
		failed: n.knocked(p),
		done: func(f *frame) {
			switch {
			case f == nil || f.Type != typeResponse: // it leaves the election to this member
			case p.kind == legacy:
				n.site.hear(p, election.Message{Kind: election.Answer, Round: m.Round})
			default:
				n.site.deliver(p, f.Batuta)
			}
		}})
}

// announce announces this member as the boss. A member that has just called an election first
// gets the answer of a higher member.
func (n *connections) announce(p *peer, m *election.Message) {
	if m != nil && p.slot != nil && p.slot.Type == typeElection {
		if p.id.Compare(n.site.Self) > 0 {
			return // it does not ask this member, and will lead in a moment
		}
		p.slot.answer(&election.Message{Kind: election.Answer, Election: m.Election, From: m.From, To: m.To,
			Highest: m.Highest, Eligibility: m.Eligibility, Draining: m.Draining, Leads: m.Leads, Change: m.Change,
			Digest: m.Digest, Round: p.slot.called()})
		n.announceAgain(p) // further members may be waiting, too
		if p.kind == legacy && time.Since(p.told) < n.site.Timing.T()/2 {
			return // it is about to come: after two announcements it might come twice, and leave both times
		}
	}
	p.told = time.Now()
	var frames [][]byte
	if n.wire.Announce != Identification {
		frames = append(frames, n.self.announcement(m))
	}
	if n.wire.Announce != NewBoss {
		var again *election.Message
		if n.wire.Announce == Identification {
			again = m
		}
		frames = append(frames, n.self.identification(n.site.leads(), true, again))
	}
	n.log.Debug("sends", "type", typeNewBoss, "to", p.id)
	n.start(&exchange{to: p, frames: frames, mute: n.wire.Announce == NewBoss, silent: true, done: func(f *frame) {
		if f != nil && p.kind == legacy {
			n.known(p, f, false)
		}
	}})
}

// openPersistent presents this member to its boss and keeps the connection.
func (n *connections) openPersistent(p *peer) {
	if p.opening {
		return
	}
	p.opening = true
	out, addr := n.self.identification(n.site.leads(), false, nil), p.addr
	n.log.Debug("sends", "type", typeIdentification, "to", p.id, "temporary", false)
	n.live.Go(func() {
		nc, f, err := n.dialer.present(addr, out)
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

// presented handles the result of openPersistent. A boss that closes or does not claim to lead
// is asked again.
func (n *connections) presented(p *peer, l *persistent, f *frame, err error) {
	p.opening = false
	p.retry = time.Now().Add(n.site.Timing.Heartbeat)
	switch {
	case n.peers[p.id] != p:
	case err != nil && !wasReset(err):
		n.site.failed(p, errors.Is(err, syscall.ECONNREFUSED))
		return
	case err != nil:
		n.identify(p, nil)
		return
	default:
		if err := n.site.meet(p, f); err != nil {
			n.site.Emit(election.Event{Kind: election.DialFailed, Peer: p.id, Err: err})
			break
		}
		n.site.identified(p, f)
		if l != nil && !n.site.leads() {
			n.setPersistent(p, l)
			return
		}
	}
	if l != nil {
		l.close()
	}
}

// dialAttempts is how often an exchange is tried on a connection that is made and then reset:
// the process at the remote end is ending, and refuses in a moment.
const dialAttempts = 3

// dialer makes connections to members, without a list of them. It may be used on any goroutine.
type dialer struct {
	ctx     context.Context // ends all
	from    string          // this member's own IP address
	timeout time.Duration   // of a dial, and of a frame with its reply
	log     *slog.Logger
	faults  *faults
}

// run does an exchange, and returns the reply to its last frame; nil: there was none.
func (d *dialer) run(x *exchange) (f *frame, err error) {
	ctx, cancel := context.WithTimeout(d.ctx, cmp.Or(x.wait, d.timeout))
	defer cancel()
	for i, out := range x.frames {
		last := i == len(x.frames)-1
		for attempt := 1; ; attempt++ {
			f, err = d.once(ctx, x.addr, out, !last || x.mute)
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

// once sends a frame and reads the reply, unless mute is set.
func (d *dialer) once(ctx context.Context, addr string, out []byte, mute bool) (*frame, error) {
	nc, err := d.dial(ctx, addr)
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
		d.faults.connection(nc, err)
		return nil, err
	}
	if err = f.from(hostOf(nc)); err != nil {
		d.faults.connection(nc, err)
	}
	return f, err
}

// present makes a persistent connection, and reads the identification of the remote end.
func (d *dialer) present(addr string, out []byte) (net.Conn, *frame, error) {
	ctx, cancel := context.WithTimeout(d.ctx, d.timeout)
	defer cancel()
	nc, err := d.dial(ctx, addr)
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
		d.faults.connection(nc, err)
	}
	nc.Close()
	return nil, nil, err
}

// dial connects from this member's own address.
func (d *dialer) dial(ctx context.Context, addr string) (net.Conn, error) {
	from := net.Dialer{KeepAlive: -1}
	if a, err := netip.ParseAddr(d.from); err == nil {
		from.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
	}
	nc, err := from.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		d.log.Error("this member's id is no address of this machine: give it one as its id", "id", d.from, "error", err)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	return nc, nil
}

func hostOf(nc net.Conn) netip.Addr {
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

func wasReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// faults counts and logs what is dropped. It may be used on any goroutine.
type faults struct {
	log      *slog.Logger
	counters *network.Counters
	refusals refusal.Log
}

// drop counts what was dropped for a reason, and logs it unless that was logged for the host
// recently.
func (f *faults) drop(host, reason, text string, args ...any) {
	f.counters.Bad(reason)
	f.refusals.Warn(f.log, host, reason, text, args...)
}

// connection counts and logs an invalid frame. The end of a connection is no fault.
func (f *faults) connection(nc net.Conn, err error) {
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
		f.refusals.Warn(f.log, hostOf(nc).String(), "silent", "the other end's machine does not answer; the connection is closed", "peer", nc.RemoteAddr(), "error", err)
		return
	default:
		return
	}
	f.drop(hostOf(nc).String(), reason, "bad frame; its connection is closed", "from", nc.RemoteAddr(), "reason", reason, "error", err)
}
