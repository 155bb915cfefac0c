package transport

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// This file makes connections, and reads them until they end.

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
	c := &conn{dialed: true, to: p.id, bounds: t.bounds, live: &t.live, counters: t.counters, early: slices.Clone(frame)}
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

// accept serves a connection that a peer has dialed.
func (t *Transport) accept(nc net.Conn) {
	c := &conn{bounds: t.bounds, live: &t.live, counters: t.counters, host: hostOf(nc)}
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
		t.counters.Refused(string(wire.ReasonSecurity))
		why := election.Shown(clamped(err.Error()))
		t.refusals.Warn(t.log, hostIn(c.remote()), why, "connection refused", "at", c.remote(), "reason", string(wire.ReasonSecurity), "detail", why)
	}
	if errors.As(err, &b) {
		t.counters.Bad(string(b.Reason))
		t.refusals.Warn(t.log, hostIn(c.remote()), string(b.Reason), "bad frame; its connection is closed", "from", c.remote(), "reason", string(b.Reason), "error", err)
	}
	c.close()
	t.post(incoming{conn: c, err: err})
}

func (t *Transport) post(in incoming) { t.Post(func() { t.take(in) }) }

// connector makes connections and authenticates their peers. It is used by the goroutines of
// connections, and reaches nothing of a Transport.
type connector struct {
	dialer   Dialer
	self     wire.Handshake // this member's hello, except its address
	security Security       // nil: plain
	plain    plainAddrs
	bounds   bounds
	trip     time.Duration // a round trip
	counters *network.Counters
	log      *slog.Logger
	live     sync.WaitGroup // connection goroutines
}

// Dialer connects to addr, HOST:PORT, before ctx ends. Its error wraps [ErrRefused] if the host
// answers that no process listens there.
type Dialer func(ctx context.Context, addr string) (net.Conn, error)

// dialAttempts is the most attempts of one dial. A process that shuts down may accept a connection
// and reset it; soon it refuses.
const dialAttempts = 3

func (d Dialer) within(ctx context.Context, limit time.Duration, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return d(ctx, addr)
}

// reach connects to addr, and by TLS if this member has that.
func (k *connector) reach(ctx context.Context, c *conn, addr string) error {
	nc, err := k.dialer.within(ctx, k.trip, addr)
	if err != nil {
		return err
	}
	if err := c.connect(nc, k.soon(ctx)); err != nil || k.security == nil || k.plain.has(addr) {
		return err
	}
	err = c.secure(k.security, func(s net.Conn) *tls.Conn { return k.security.Client(s, addr) })
	if k.security.Plain() && (wasReset(err) || errors.Is(err, errPlain)) {
		k.plain.set(addr, true) // for the next attempt
		return fmt.Errorf("TLS: %w", io.EOF)
	}
	return err
}

// soon returns the deadline of a round trip.
func (k *connector) soon(ctx context.Context) time.Time {
	until, _ := ctx.Deadline()
	if own := time.Now().Add(k.trip); own.Before(until) {
		return own
	}
	return until
}

// sayHello connects, sends the hello and receives the answer. Each step is a round trip, as is TLS
// in between, and has its own bound.
func (k *connector) sayHello(ctx context.Context, c *conn, addr string) (*wire.Handshake, error) {
	if err := k.reach(ctx, c, addr); err != nil {
		return nil, err
	}
	if err := k.proves(c, c.to); err != nil {
		return nil, &insecure{fmt.Errorf("address %s of member %s is wrong, or its certificate is: %w: correct the address that it advertises, or the member list", addr, c.to, err), true}
	}
	c.release()
	return k.answerOf(c, addr, k.soon(ctx), wire.MaxHandshake)
}

// answerOf receives the answer to what was sent first.
func (k *connector) answerOf(c *conn, addr string, until time.Time, limit int) (*wire.Handshake, error) {
	if err := c.await(until); err != nil {
		return nil, err
	}
	read := c.read
	if c.proof() == nil {
		read = func(limit int) ([]byte, error) { return k.firstPlain(c, limit) }
	}
	body, err := read(limit)
	if err != nil {
		k.plain.set(addr, false)
		var alert *net.OpError // after this end has finished its handshake
		if c.tls != nil && errors.As(err, &alert) && alert.Op == "remote error" {
			k.security.Forget(addr)
			err = &insecure{fmt.Errorf("the other end does not take this member's certificate: %w", err), true}
		}
		return nil, err
	}
	return wire.DecodeHandshake(body)
}

// firstFrame returns the peer's first frame, by TLS if this member uses that.
func (k *connector) firstFrame(c *conn) ([]byte, error) {
	if k.security != nil {
		if body, err := c.attestation(); err != nil || body != nil {
			return body, err
		}
		if !k.security.Plain() || c.buf[0] == recordHandshake {
			if err := c.secure(k.security, k.security.Server); err != nil {
				return nil, err
			}
			c.release()
			return c.read(wire.MaxHandshake)
		}
	}
	body, err := k.firstPlain(c, wire.MaxHandshake)
	c.release()
	return body, err
}

// firstPlain reads the first frame of the peer, and detects TLS if this end has none.
func (k *connector) firstPlain(c *conn, limit int) ([]byte, error) {
	first, err := c.peek()
	switch {
	case err != nil:
		return nil, err
	case first != recordHandshake && first != recordAlert:
		return c.read(limit)
	}
	if !c.dialed {
		c.release()
		h := k.self
		h.Kind, h.Cluster, h.Reason = wire.KindRefused, "", wire.ReasonSecurity
		k.say(c, &h) // not TLS: shows the peer that there is none here
	}
	return nil, &insecure{errors.New("it requires TLS, and this member has neither a secret nor certificates: set up both alike"), bytes.Equal(c.buf[:c.w], unexpected)}
}

func (k *connector) say(c *conn, h *wire.Handshake) {
	frame, err := new(wire.Encoder).Handshake(h)
	if err != nil {
		k.log.Error("handshake not sent", "error", err)
		return
	}
	c.send(frame)
}

// proves returns why a peer may not be the member id, if it may not. Without TLS it may, which only
// a member that is set up so accepts.
func (k *connector) proves(c *conn, id election.ID) error {
	cs := c.proof()
	if cs == nil {
		return nil
	}
	return k.security.Proves(*cs, string(id))
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

// ErrRefused means that the host exists, but no process listens at the address.
var ErrRefused = errors.New("connection refused")

// Listen begins to accept TCP connections at addr, HOST:PORT.
func Listen(addr string) (net.Listener, error) {
	var c net.ListenConfig
	c.KeepAlive = -1 // heartbeats detect more, and sooner
	c.SetMultipathTCP(false)
	return c.Listen(context.Background(), "tcp", addr)
}

// Dial is a [Dialer] over TCP. It sends small frames at once: Go sets TCP_NODELAY.
func Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	d.SetMultipathTCP(false)
	c, err := d.DialContext(ctx, "tcp", addr)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("dial %s: %w", addr, ErrRefused)
	}
	return c, err
}

// nowWriter writes what the kernel accepts at once, without waiting for room. This way a frame
// needs neither a second goroutine nor a context switch.
type nowWriter struct {
	raw  syscall.RawConn
	fill func(fd uintptr) bool
	data []byte
	n    int
	err  error
}

// newNowWriter returns nil if c has no file descriptor of its own.
func newNowWriter(c net.Conn) *nowWriter {
	sc, ok := c.(syscall.Conn)
	if !ok || !canWriteNow {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	w := &nowWriter{raw: raw}
	w.fill = w.try
	return w
}

// write returns the number of bytes accepted, which may be 0.
func (w *nowWriter) write(p []byte) (int, error) {
	w.data, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.fill)
	w.data = nil
	return w.n, errors.Join(err, w.err)
}

// nowReader reads by the calls that nowWriter writes by.
type nowReader struct {
	raw  syscall.RawConn
	fill func(fd uintptr) bool
	data []byte
	n    int
	err  error
}

// newNowReader gives c itself when it is not TCP's own connection.
func newNowReader(c net.Conn) io.Reader {
	tcp, ok := c.(*net.TCPConn)
	if !ok || !canWriteNow {
		return c
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c
	}
	r := &nowReader{raw: raw}
	r.fill = r.try
	return r
}

// Read implements [io.Reader].
func (r *nowReader) Read(p []byte) (int, error) {
	r.data, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.fill)
	err = cmp.Or(err, r.err)
	r.data = nil
	if err == nil && r.n == 0 && len(p) > 0 {
		err = io.EOF
	}
	return r.n, err
}

// acceptor accepts connections. It holds those with an unfinished handshake, and evicts the oldest
// when there are too many. An honest hello arrives together with its connection, so a connection
// that has waited for long is not a member's.
type acceptor struct {
	listener net.Listener
	total    int // unfinished handshakes at a time
	perHost  int // the same, from a single host
	crowded  func()
	failed   func(error) // the system cannot accept a connection now, or the listener was closed

	mu      sync.Mutex
	over    bool    // it is shut
	waiting []*conn // oldest first
}

// open accepts connections and passes them to accept until the acceptor is shut, or its listener is closed.
func (a *acceptor) open(ctx context.Context, accept func(net.Conn)) {
	for {
		nc, err := a.listener.Accept()
		if err == nil {
			accept(nc)
			continue
		}
		if a.isShut() {
			return
		}
		a.failed(err)
		if isClosed(err) {
			return
		}
		select {
		case <-time.After(acceptPause): // out of file descriptors, most likely
		case <-ctx.Done():
			return
		}
	}
}

// acceptPause is how long to wait when the system cannot accept a connection.
const acceptPause = 20 * time.Millisecond

// enter registers a connection.
func (a *acceptor) enter(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, c)
	same := 0
	oldest := -1
	for i, w := range a.waiting {
		if w.host == c.host {
			if same++; oldest < 0 {
				oldest = i
			}
		}
	}
	switch {
	case same > a.perHost:
	case len(a.waiting) > a.total:
		oldest = 0
	default:
		return
	}
	a.waiting[oldest].close()
	a.waiting = slices.Delete(a.waiting, oldest, oldest+1)
	a.crowded()
}

// leave removes a connection; it may be called again.
func (a *acceptor) leave(c *conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.waiting, c); i >= 0 {
		a.waiting = slices.Delete(a.waiting, i, i+1)
	}
}

func (a *acceptor) isShut() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.over
}

// shut closes the port and every connection with an unfinished handshake.
func (a *acceptor) shut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	a.listener.Close()
	for _, c := range a.waiting {
		c.close()
	}
	a.waiting = nil
}

// hostOf returns the peer's host.
func hostOf(c net.Conn) string { return hostIn(c.RemoteAddr().String()) }

// hostIn returns the host of an address, or the whole address if it has no port.
func hostIn(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}
