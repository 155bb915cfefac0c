package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file makes connections, and reads them until they end.

// Dialer connects to addr, HOST:PORT, before ctx ends. Its error wraps [ErrRefused] if the host
// answers that no process listens there.
type Dialer func(ctx context.Context, addr string) (net.Conn, error)

// dialAttempts bounds the attempts of a dial whose connection is accepted and then reset: the
// process there is shutting down, and soon refuses.
const dialAttempts = 3

// dial begins a dial to p unless there is a dial already, and returns its connection. That accepts
// frames at once, which follow the hello.
func (t *Transport) dial(p *peer) *conn {
	if p.dialing != nil {
		return p.dialing
	}
	hello := t.self
	hello.From, hello.Address = t.site.Rank(), t.address
	hello.Kind, hello.To = wire.KindHello, p.id
	frame, err := new(wire.Encoder).Handshake(&hello)
	if err != nil {
		panic(err) // Validate bounds its fields
	}
	c := &conn{dialed: true, to: p.id, bounds: t.bounds, live: &t.live, counters: t.site.Counters, early: slices.Clone(frame)}
	p.dialing = c
	addr := p.addr // read here: a turn may change the member's address meanwhile
	t.live.Go(func() { t.connectTo(c, addr, frame) })
	return c
}

// connectTo makes a dialed connection and serves it to its end.
func (t *Transport) connectTo(c *conn, addr string, hello []byte) {
	ctx, cancel := context.WithTimeout(t.ctx, t.connectTime+t.trip)
	defer cancel()
	for attempt := 1; ; attempt++ {
		answer, err := t.sayHello(ctx, c, addr)
		if err == nil {
			t.post(incoming{conn: c, handshake: answer})
			break
		}
		if attempt == dialAttempts || !wasReset(err) {
			t.tellEnd(c, err)
			return
		}
		c.disconnect(slices.Clone(hello))
	}
	cancel()
	t.receive(c)
}

// sayHello connects, sends the hello and receives the answer. Each step is a round trip, as is TLS
// in between, and has its own bound.
func (t *Transport) sayHello(ctx context.Context, c *conn, addr string) (*wire.Handshake, error) {
	if err := t.reach(ctx, c, addr); err != nil {
		return nil, err
	}
	if cs := c.proof(); cs != nil {
		if err := t.security.Proves(*cs, string(c.to)); err != nil {
			return nil, &insecure{fmt.Errorf("address %s of member %s is wrong, or its certificate is: %w: correct the address that it advertises, or the member list", addr, c.to, err), true}
		}
	}
	c.release()
	if err := c.await(t.soon(ctx)); err != nil {
		return nil, err
	}
	body, err := t.firstAnswer(c, wire.MaxHandshake)
	if err != nil {
		return nil, t.toldInsecure(c, addr, err)
	}
	return wire.DecodeHandshake(body)
}

// firstAnswer reads the peer's first frame.
func (t *Transport) firstAnswer(c *conn, limit int) ([]byte, error) {
	if c.proof() == nil {
		return t.firstPlain(c, limit)
	}
	return c.read(limit)
}

// reach connects to addr, and by TLS if this member has that.
func (t *Transport) reach(ctx context.Context, c *conn, addr string) error {
	nc, err := t.dialer.within(ctx, t.trip, addr)
	if err != nil {
		return err
	}
	if err := c.connect(nc, t.soon(ctx)); err != nil || t.security == nil || t.plain.has(addr) {
		return err
	}
	err = c.secure(t.security, func(s net.Conn) *tls.Conn { return t.security.Client(s, addr) })
	if t.security.Plain() && (wasReset(err) || errors.Is(err, errPlain)) {
		t.plain.set(addr, true) // for the next attempt
		return fmt.Errorf("TLS: %w", io.EOF)
	}
	return err
}

// soon returns the deadline of a round trip.
func (t *Transport) soon(ctx context.Context) time.Time {
	until, _ := ctx.Deadline()
	if own := time.Now().Add(t.trip); own.Before(until) {
		return own
	}
	return until
}

func (d Dialer) within(ctx context.Context, limit time.Duration, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d(ctx, addr)
}

// wasReset detects a process that is shutting down: it accepts the connection and then resets it.
func wasReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// accept serves a connection that a peer has dialed.
func (t *Transport) accept(nc net.Conn) {
	c := &conn{bounds: t.bounds, live: &t.live, counters: t.site.Counters, host: hostOf(nc)}
	if c.connect(nc, time.Now().Add(t.connectTime)) != nil {
		nc.Close()
		return
	}
	t.acceptor.enter(c)
	t.live.Go(func() {
		defer t.acceptor.leave(c)
		body, err := t.firstFrame(c)
		if err == nil {
			var hello *wire.Handshake
			if hello, err = wire.DecodeHandshake(body); err == nil {
				t.post(incoming{conn: c, handshake: hello})
				t.receive(c)
				return
			}
		}
		t.tellEnd(c, err)
	})
}

// firstFrame returns the peer's first frame, by TLS if this member uses that.
func (t *Transport) firstFrame(c *conn) ([]byte, error) {
	secured := t.security != nil
	if secured {
		if body, err := c.attestation(); err != nil || body != nil {
			return body, err
		}
		secured = !t.security.Plain() || c.buf[0] == recordHandshake
	}
	if secured {
		if err := c.secure(t.security, t.security.Server); err != nil {
			return nil, err
		}
	}
	if !secured {
		body, err := t.firstPlain(c, wire.MaxHandshake)
		c.release()
		return body, err
	}
	c.release()
	return c.read(wire.MaxHandshake)
}

// receive passes on messages until the connection ends.
func (t *Transport) receive(c *conn) {
	for {
		body, err := c.read(wire.MaxFrame)
		if err == nil {
			var m *election.Message
			if m, err = wire.DecodeMessage(body); err == nil {
				t.post(incoming{conn: c, message: m})
				continue
			}
		}
		t.tellEnd(c, err)
		return
	}
}

// tellEnd reports the end of a connection, in a turn.
func (t *Transport) tellEnd(c *conn, err error) {
	var b *wire.BadFrame
	var unproven *insecure
	if errors.As(err, &unproven) && !c.dialed { // the turn reports a dialed member, by its id
		t.site.Counters.Refused(string(wire.ReasonSecurity))
		why := election.Shown(clamped(err.Error()))
		t.refusals.Warn(t.site.Log, hostIn(c.remote()), why, "connection refused", "at", c.remote(), "reason", string(wire.ReasonSecurity), "detail", why)
	}
	if errors.As(err, &b) {
		t.site.Counters.Bad(string(b.Reason))
		t.refusals.Warn(t.site.Log, hostIn(c.remote()), string(b.Reason), "bad frame; its connection is closed", "from", c.remote(), "reason", string(b.Reason), "error", err)
	}
	c.close()
	t.post(incoming{conn: c, err: err})
}

func (t *Transport) post(in incoming) { t.Post(func() { t.take(in) }) }
