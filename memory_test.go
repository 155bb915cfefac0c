package batuta

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// virtually runs f in virtual time, where no machine is ever too slow: what f
// starts talks over a memory of its own ([newVirtualCluster]). Time passes when
// nobody has anything left to do, so f must wait, not spin.
func virtually(t *testing.T, f func(t *testing.T)) { synctest.Test(t, f) }

// oneWay is how long a trip takes in a memory that says nothing else.
const oneWay = time.Millisecond

// memory is a network in which every trip takes as long as takes says.
type memory struct {
	takes func() time.Duration // nil: oneWay

	mu        sync.Mutex
	listeners map[string]*memoryListener
	ports     int
}

func newMemory() *memory {
	return &memory{listeners: map[string]*memoryListener{}, ports: 17400}
}

// trip is how long the next one takes.
func (m *memory) trip() time.Duration {
	if m.takes == nil {
		return oneWay
	}
	return m.takes()
}

// host is one process's side of a memory: a [Transport] that can be killed.
type host struct {
	net *memory

	mu    sync.Mutex
	dead  bool
	ends  []*memoryConn
	ports []*memoryListener
}

// Listen binds addr; port 0 is any that is free.
func (h *host) Listen(addr string) (net.Listener, error) {
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	m := h.net
	m.mu.Lock()
	defer m.mu.Unlock()
	if port == "0" {
		m.ports++
		addr = net.JoinHostPort(ip, strconv.Itoa(m.ports))
	}
	if m.listeners[addr] != nil {
		return nil, syscall.EADDRINUSE
	}
	l := &memoryListener{host: h, addr: memoryAddr(addr), queue: make(chan *memoryConn, 4096), shut: make(chan struct{})}
	m.listeners[addr] = l
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ports = append(h.ports, l)
	return l, nil
}

// Dial takes a trip there and one back.
func (h *host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	select {
	case <-time.After(h.net.trip() + h.net.trip()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.net.mu.Lock()
	l := h.net.listeners[addr]
	h.net.mu.Unlock()
	if l == nil {
		return nil, ErrRefused
	}
	there, back := newHalf(h.net.trip), newHalf(h.net.trip)
	near := &memoryConn{in: back, out: there, local: "127.0.0.1:9", remote: l.addr}
	far := &memoryConn{in: there, out: back, local: l.addr, remote: "127.0.0.1:9"}
	if !h.keep(near) || !l.host.keep(far) {
		return nil, ErrRefused
	}
	l.queue <- far
	return near, nil
}

// keep counts a connection's end as this host's. A dead host has none.
func (h *host) keep(c *memoryConn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return false
	}
	h.ends = append(h.ends, c)
	return true
}

// kill ends the host as the kernel ends a process.
func (h *host) kill() {
	h.mu.Lock()
	h.dead = true
	ends, ports := h.ends, h.ports
	h.mu.Unlock()
	for _, l := range ports {
		l.Close()
	}
	for _, c := range ends {
		c.out.end(syscall.ECONNRESET)
		c.Close()
	}
}

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

type memoryListener struct {
	host  *host
	addr  memoryAddr
	queue chan *memoryConn
	shut  chan struct{}
	once  sync.Once
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.shut:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.host.net.mu.Lock()
		delete(l.host.net.listeners, string(l.addr))
		l.host.net.mu.Unlock()
		close(l.shut)
		for {
			select {
			case c := <-l.queue: // what nobody has accepted is reset
				c.out.end(syscall.ECONNRESET)
				c.Close()
			default:
				return
			}
		}
	})
	return nil
}

func (l *memoryListener) Addr() net.Addr { return l.addr }

// memoryConn is one end of a connection. Writing never waits.
type memoryConn struct {
	in, out       *half
	local, remote memoryAddr
	once          sync.Once
}

func (c *memoryConn) Read(p []byte) (int, error)        { return c.in.read(p) }
func (c *memoryConn) Write(p []byte) (int, error)       { return c.out.write(p) }
func (c *memoryConn) CloseWrite() error                 { c.out.end(io.EOF); return nil }
func (c *memoryConn) LocalAddr() net.Addr               { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr              { return c.remote }
func (c *memoryConn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *memoryConn) SetWriteDeadline(time.Time) error  { return nil }
func (c *memoryConn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }

func (c *memoryConn) Close() error {
	c.once.Do(func() {
		c.out.end(io.EOF)
		c.in.abandon()
	})
	return nil
}

// half is one direction of a connection.
type half struct {
	trip func() time.Duration

	mu       sync.Mutex
	more     *sync.Cond
	parts    []part
	last     time.Time // arrival of the newest
	ended    error     // after parts
	endedAt  time.Time
	gone     bool // the reading end is closed
	deadline time.Time
}

// part is bytes that arrive at a time.
type part struct {
	bytes []byte
	at    time.Time
}

func newHalf(trip func() time.Duration) *half {
	h := &half{trip: trip}
	h.more = sync.NewCond(&h.mu)
	return h
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ended != nil:
		return 0, net.ErrClosed
	case h.gone:
		return 0, syscall.EPIPE
	}
	h.parts = append(h.parts, part{append([]byte(nil), p...), h.arrival()})
	h.more.Broadcast()
	return len(p), nil
}

// arrival is when what leaves now arrives, no sooner than what left before.
func (h *half) arrival() time.Time {
	if at := time.Now().Add(h.trip()); at.After(h.last) {
		h.last = at
	}
	return h.last
}

// end is the last that the reading end hears; the first end holds.
func (h *half) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended, h.endedAt = err, h.arrival()
		h.more.Broadcast()
	}
}

func (h *half) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = true
	h.more.Broadcast()
}

func (h *half) setDeadline(t time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deadline = t
	h.more.Broadcast()
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		now := time.Now()
		var next time.Time
		switch {
		case h.gone:
			return 0, net.ErrClosed
		case !h.deadline.IsZero() && !now.Before(h.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(h.parts) > 0 && !now.Before(h.parts[0].at):
			n := copy(p, h.parts[0].bytes)
			if h.parts[0].bytes = h.parts[0].bytes[n:]; len(h.parts[0].bytes) == 0 {
				h.parts = h.parts[1:]
			}
			return n, nil
		case len(h.parts) > 0:
			next = h.parts[0].at
		case h.ended != nil && !now.Before(h.endedAt):
			return 0, h.ended
		case h.ended != nil:
			next = h.endedAt
		}
		if d := h.deadline; !d.IsZero() && (next.IsZero() || d.Before(next)) {
			next = d
		}
		h.wait(next)
	}
}

// wait waits for a change, until at if that is set.
func (h *half) wait(at time.Time) {
	if !at.IsZero() {
		timer := time.AfterFunc(time.Until(at), func() { h.mu.Lock(); h.more.Broadcast(); h.mu.Unlock() })
		defer timer.Stop()
	}
	h.more.Wait()
}

// What the tests of virtual time rest on: bytes arrive in order, one way late; a
// half that is closed ends after them; deadlines and kills are as a kernel's.
func TestMemory(t *testing.T) {
	virtually(t, func(t *testing.T) {
		m := newMemory()
		one, two := &host{net: m}, &host{net: m}
		l, err := two.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		near, err := one.Dial(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		far, _ := l.Accept()
		began := time.Now()
		near.Write([]byte("hello"))
		near.(*memoryConn).CloseWrite()
		if text, err := io.ReadAll(far); string(text) != "hello" || err != nil || time.Since(began) != oneWay {
			t.Errorf("%q, %v after %v", text, err, time.Since(began))
		}
		near.SetReadDeadline(time.Now().Add(time.Hour))
		if _, err := near.Read(make([]byte, 1)); !isTimeout(err) {
			t.Errorf("after the deadline: %v", err)
		}
		near.SetReadDeadline(time.Time{})
		two.kill()
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after the other's end: %v", err)
		}
		if _, err := one.Dial(t.Context(), l.Addr().String()); err != ErrRefused {
			t.Errorf("a dial to the dead: %v", err)
		}
		near.Close()
	})
}
