package transport

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file is TLS below the frames: it proves the identity of a peer.

// Security authenticates both ends of a connection.
type Security interface {
	Client(nc net.Conn, addr string) *tls.Conn // to the server at addr
	Server(nc net.Conn) *tls.Conn
	Believes(cs tls.ConnectionState) error          // whether it is still trusted
	Proves(cs tls.ConnectionState, id string) error // whether the peer may be a member
	Forget(addr string)                             // the session with the server there
	Foreign(cs tls.ConnectionState) bool            // whether the peer is a member without a common authority
	Plain() bool                                    // members without TLS are accepted, and dialed, too
}

// First bytes of a TLS handshake and a TLS alert. A frame of a handshake begins with 0.
const (
	recordHandshake = 22
	recordAlert     = 21
)

// unexpected is how TLS refuses data that is not TLS: the alert unexpected_message (RFC 8446,
// section 6). It names no member; unrelated servers refuse a frame by different alerts, or without
// an alert.
var unexpected = []byte{recordAlert, 3, 3, 0, 2, 2, 10}

// insecure is why an end does not trust its peer.
type insecure struct {
	error
	member bool // the peer is certainly a member of some cluster; else it may be any server
}

func (e *insecure) Unwrap() error { return e.error }

// stream is the network side of TLS. Its writes never wait; bytes read ahead, to detect how the
// peer begins, are read again.
type stream struct {
	net.Conn
	c     *conn
	in    io.Reader
	ahead []byte
	first []byte // the peer's first bytes
}

// Write implements [io.Writer].
func (s *stream) Write(b []byte) (int, error) { return len(b), s.c.put(s.Conn, b) }

// Read implements [io.Reader].
func (s *stream) Read(b []byte) (int, error) {
	if len(s.ahead) > 0 {
		n := copy(b, s.ahead)
		s.ahead = s.ahead[n:]
		return n, nil
	}
	n, err := s.in.Read(b)
	if s.first == nil {
		s.first = slices.Clone(b[:n])
	}
	return n, err
}

// refuses reports whether the peer has no TLS, and has answered as a member without TLS does.
func (s *stream) refuses() bool {
	if len(s.first) <= wire.LengthSize {
		return false
	}
	h, err := wire.DecodeHandshake(s.first[wire.LengthSize:])
	return err == nil && h.Kind == wire.KindRefused
}

// peek returns the first byte that arrives, and leaves it in the buffer.
func (c *conn) peek() (byte, error) {
	for c.w == 0 {
		n, err := c.net.Read(c.buf)
		if c.w = n; n == 0 && err != nil {
			return 0, err
		}
	}
	return c.buf[0], nil
}

// attestation returns the first frame if it is a guard's, which has neither TLS nor membership. It
// returns nil for anything else, and leaves that in the buffer. It waits for at most a short frame,
// and costs no handshake.
func (c *conn) attestation() ([]byte, error) {
	if _, err := c.peek(); err != nil {
		return nil, err
	}
	for {
		if c.w >= wire.LengthSize {
			size, err := wire.FrameSize(c.buf[:c.w], wire.MaxAttestation)
			if err != nil {
				return nil, nil // TLS begins differently, and a hello may be longer
			}
			if end := wire.LengthSize + size; c.w >= end {
				body := c.buf[wire.LengthSize:end]
				if h, err := wire.DecodeHandshake(body); err != nil || h.Kind != wire.KindAttest {
					return nil, nil
				}
				c.r = end
				return body, nil
			}
		} else if c.buf[0] != 0 {
			return nil, nil
		}
		n, err := c.net.Read(c.buf[c.w:])
		if c.w += n; n == 0 && err != nil {
			return nil, nil // the next read detects it
		}
	}
}

// secure does the TLS handshake over the connection.
func (c *conn) secure(by Security, over func(net.Conn) *tls.Conn) error {
	s := &stream{Conn: c.net, c: c, in: c.in, ahead: c.buf[c.r:c.w]}
	conn := over(s)
	if err := conn.Handshake(); err != nil {
		if wasReset(err) || isTimeout(err) || isClosed(err) || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("TLS: %w", err) // it ended without a reason
		}
		if isPlain(err) && !c.dialed {
			c.put(c.net, unexpected)
		}
		if by.Foreign(conn.ConnectionState()) {
			return &insecure{inWords(errForeign, c.dialed), true}
		}
		return &insecure{inWords(err, c.dialed), s.refuses()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.tls, c.in = conn, conn
	c.buf, c.r, c.w = make([]byte, readBuffer), 0, 0
	return nil
}

var errForeign = errors.New("they believe no authority in common")

var errPlain = errors.New("it speaks without TLS, as a member without a secret or certificates does: set up both alike")

// isPlain reports whether the peer sends something other than TLS.
func isPlain(err error) bool { return errors.As(err, new(tls.RecordHeaderError)) }

// inWords describes what two members have set up differently, for an error of crypto/tls that only
// names its effect in the protocol.
func inWords(err error, dialed bool) error {
	switch {
	case isPlain(err):
		return errPlain
	case err == errForeign, strings.Contains(err.Error(), "application protocol"): // an unrelated server answers with the latter
		if dialed {
			return errors.New(differently + ", or correct its address")
		}
		return errors.New(differently)
	}
	return err
}

const differently = "it has another secret, is of another cluster, or has certificates where this member has a secret or the other way round: set up both alike"

// firstPlain reads the first frame of the peer, and detects TLS if this end has none.
func (t *Transport) firstPlain(c *conn, limit int) ([]byte, error) {
	first, err := c.peek()
	switch {
	case err != nil:
		return nil, err
	case first != recordHandshake && first != recordAlert:
		return c.read(limit)
	}
	if !c.dialed {
		c.release()
		h := t.self
		h.Kind, h.Cluster, h.Reason = wire.KindRefused, "", wire.ReasonSecurity
		t.say(c, &h) // not TLS: shows the peer that there is none here
	}
	return nil, &insecure{errors.New("it requires TLS, and this member has neither a secret nor certificates: set up both alike"), bytes.Equal(c.buf[:c.w], unexpected)}
}

// proof returns the peer's TLS state; nil without TLS.
func (c *conn) proof() *tls.ConnectionState {
	c.mu.Lock()
	t := c.tls
	c.mu.Unlock()
	if t == nil {
		return nil
	}
	cs := t.ConnectionState()
	return &cs
}

// toldInsecure detects whether the peer rejected this member's certificate, which the peer reports
// after this end has finished its handshake.
func (t *Transport) toldInsecure(c *conn, addr string, err error) error {
	t.plain.set(addr, false)
	var alert *net.OpError
	if c.tls != nil && errors.As(err, &alert) && alert.Op == "remote error" {
		t.security.Forget(addr)
		return &insecure{fmt.Errorf("the other end does not take this member's certificate: %w", err), true}
	}
	return err
}

// unproven returns why a peer may not be the member that it claims to be.
func (t *Transport) unproven(c *conn, id election.ID) (why wire.Reason, detail string) {
	cs := c.proof()
	if cs == nil {
		return "", "" // without TLS it is accepted only if that is configured
	}
	if err := t.security.Proves(*cs, string(id)); err != nil {
		return wire.ReasonSecurity, err.Error()
	}
	return "", ""
}

// Reassess ends the connections to members that are no longer trusted.
func (t *Transport) Reassess() {
	for _, p := range t.peers {
		for _, c := range p.conns {
			cs := c.proof()
			if cs == nil {
				continue
			}
			if err := t.security.Proves(*cs, string(p.id)); err != nil {
				t.refused(p.id, c.remote(), wire.ReasonSecurity, err.Error())
				c.close() // the reader reports its end
			}
		}
	}
}

// plainAddrs are the addresses that are dialed without TLS, though this member has it. While a
// cluster changes to TLS, a member without it ends a TLS connection.
type plainAddrs struct{ m sync.Map }

func (p *plainAddrs) has(addr string) bool {
	_, plain := p.m.Load(addr)
	return plain
}

// set selects whether the next dial of addr is without TLS.
func (p *plainAddrs) set(addr string, plain bool) {
	if plain {
		p.m.Store(addr, true)
	} else {
		p.m.Delete(addr)
	}
}
