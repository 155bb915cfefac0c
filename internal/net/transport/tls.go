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

// This file is TLS under the frames: it proves which member the peer is.

// Security proves both ends of a connection.
type Security interface {
	Client(nc net.Conn, addr string) *tls.Conn // to whoever listens at addr
	Server(nc net.Conn) *tls.Conn
	Believes(cs tls.ConnectionState) error          // whether it holds still
	Proves(cs tls.ConnectionState, id string) error // whether the peer may be a member
	Forget(addr string)                             // the session with whoever listens there
	Foreign(cs tls.ConnectionState) bool            // whether it is a member's that believes no authority of this one's
	Plain() bool                                    // members without TLS are let in, and dialed, too
}

// How TLS begins, and how it refuses. A frame of a handshake begins with a 0.
const (
	recordHandshake = 22
	recordAlert     = 21
)

// unexpected is how TLS refuses what is not TLS: the alert unexpected_message (RFC 8446,
// section 6). It names no member; other servers refuse a frame by other alerts, or by none.
var unexpected = []byte{recordAlert, 3, 3, 0, 2, 2, 10}

// insecure is why one end does not believe the other.
type insecure struct {
	error
	member bool // the other end is a member of some cluster for certain; else it may be any server
}

func (e *insecure) Unwrap() error { return e.error }

// stream is the network side of TLS. What is written never waits; what was read to see
// how the other end begins is read again.
type stream struct {
	net.Conn
	c     *conn
	in    io.Reader
	ahead []byte
	first []byte // what the other end sent first
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

// refuses reports whether the other end has no TLS, and has answered as a member without it does.
func (s *stream) refuses() bool {
	if len(s.first) <= wire.LengthSize {
		return false
	}
	h, err := wire.DecodeHandshake(s.first[wire.LengthSize:])
	return err == nil && h.Kind == wire.KindRefused
}

// peek gives the first byte that arrives, which stays.
func (c *conn) peek() (byte, error) {
	for c.w == 0 {
		n, err := c.net.Read(c.buf)
		if c.w = n; n == 0 && err != nil {
			return 0, err
		}
	}
	return c.buf[0], nil
}

// attestation gives the first frame if it is a guard's, which has neither TLS nor membership;
// nil if it is something else, all of which stays to be read. It waits for no more than a short
// frame, and costs no handshake.
func (c *conn) attestation() ([]byte, error) {
	if _, err := c.peek(); err != nil {
		return nil, err
	}
	for {
		if c.w >= wire.LengthSize {
			size, err := wire.FrameSize(c.buf[:c.w], wire.MaxAttestation)
			if err != nil {
				return nil, nil // TLS begins otherwise, a hello may be longer
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
			return nil, nil // the next to read finds that
		}
	}
}

// secure does the handshake of TLS over what is connected.
func (c *conn) secure(by Security, over func(net.Conn) *tls.Conn) error {
	s := &stream{Conn: c.net, c: c, in: c.in, ahead: c.buf[c.r:c.w]}
	conn := over(s)
	if err := conn.Handshake(); err != nil {
		if wasReset(err) || isTimeout(err) || isClosed(err) || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("TLS: %w", err) // it has ended, and says nothing of why
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

// isPlain reports that the other end speaks, and not TLS.
func isPlain(err error) bool { return errors.As(err, new(tls.RecordHeaderError)) }

// inWords says what two members have set up differently where crypto/tls names what its
// protocol makes of it.
func inWords(err error, dialed bool) error {
	switch {
	case isPlain(err):
		return errPlain
	case err == errForeign, strings.Contains(err.Error(), "application protocol"): // another server answers with the latter
		if dialed {
			return errors.New(differently + ", or correct its address")
		}
		return errors.New(differently)
	}
	return err
}

const differently = "it has another secret, is of another cluster, or has certificates where this member has a secret or the other way round: set up both alike"

// firstPlain reads the first frame of the other end, of which TLS may be heard where this
// end has none.
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
		t.say(c, &h) // no TLS: so it hears that there is none here
	}
	return nil, &insecure{errors.New("it wants TLS, and this member has neither a secret nor certificates: set up both alike"), bytes.Equal(c.buf[:c.w], unexpected)}
}

// proof is what the other end has shown of itself; nil without TLS.
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

// toldInsecure finds whether the other end does not believe this one, which it tells
// once our end of the handshake is over.
func (t *Transport) toldInsecure(c *conn, addr string, err error) error {
	t.plain.set(addr, false)
	var alert *net.OpError
	if c.tls != nil && errors.As(err, &alert) && alert.Op == "remote error" {
		t.security.Forget(addr)
		return &insecure{fmt.Errorf("the other end does not take this member's certificate: %w", err), true}
	}
	return err
}

// unproven says why the other end of a connection may not be who it says.
func (t *Transport) unproven(c *conn, id election.ID) (why wire.Reason, detail string) {
	cs := c.proof()
	if cs == nil {
		return "", "" // nobody is let in without, unless that is wanted
	}
	if err := t.security.Proves(*cs, string(id)); err != nil {
		return wire.ReasonSecurity, err.Error()
	}
	return "", ""
}

// Reassess ends the connections to those who are not believed any more.
func (t *Transport) Reassess() {
	for _, p := range t.peers {
		for _, c := range p.conns {
			cs := c.proof()
			if cs == nil {
				continue
			}
			if err := t.security.Proves(*cs, string(p.id)); err != nil {
				t.refused(p.id, c.remote(), wire.ReasonSecurity, err.Error())
				c.close() // its end is told by the reader
			}
		}
	}
}

// plainAddrs are the addresses that are dialed without TLS, though this member has it: while a
// cluster changes over, a member that has none yet ends the connection.
type plainAddrs struct{ m sync.Map }

func (p *plainAddrs) has(addr string) bool {
	_, plain := p.m.Load(addr)
	return plain
}

// set has addr dialed without TLS next time, or with it.
func (p *plainAddrs) set(addr string, plain bool) {
	if plain {
		p.m.Store(addr, true)
	} else {
		p.m.Delete(addr)
	}
}
