package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

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

// wasReset detects a process that is shutting down: it accepts the connection and then resets it.
func wasReset(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
