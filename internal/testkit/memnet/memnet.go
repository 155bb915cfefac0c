// Package memnet is a network in memory, for tests in virtual time. Bytes arrive in order, a
// message delay late. Deadlines, ends and kills are as a kernel's. Calls cut and heal links, and freeze
// and thaw hosts.
package memnet

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/transport"
)

// OneWay is the default message delay of a Network.
const OneWay = time.Millisecond

// Network is a network with the message delay that Takes returns.
type Network struct {
	Takes func() time.Duration // nil: OneWay. It is set before anything is sent

	mu        sync.Mutex
	listeners map[string]*listener
	ports     int
	cuts      map[[2]string]bool // by the names of hosts, the lower first
	changed   chan struct{}      // closed when cuts change
	halves    map[*half]struct{} // of open connections
}

// New makes a network without hosts.
func New() *Network {
	return &Network{listeners: map[string]*listener{}, ports: 17400, cuts: map[[2]string]bool{},
		changed: make(chan struct{}), halves: map[*half]struct{}{}}
}

// trip returns the next message delay.
func (m *Network) trip() time.Duration {
	if m.Takes == nil {
		return OneWay
	}
	return m.Takes()
}

// Host makes a process's side of the network. Cut and Heal use its name.
func (m *Network) Host(name string) *Host { return &Host{net: m, name: name} }

// Cut stops all traffic between two hosts: data waits, as in TCP, and dials get no answer.
func (m *Network) Cut(a, b string) { m.cut(a, b, true) }

// Heal ends a cut: what has waited arrives.
func (m *Network) Heal(a, b string) { m.cut(a, b, false) }

func (m *Network) cut(a, b string, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if link := linkOf(a, b); on {
		m.cuts[link] = true
	} else {
		delete(m.cuts, link)
	}
	close(m.changed)
	m.changed = make(chan struct{})
	for h := range m.halves {
		h.hold(m.cuts[h.link])
	}
}

func linkOf(a, b string) [2]string { return [2]string{min(a, b), max(a, b)} }

// awaitOpen waits until nothing is cut between two hosts.
func (m *Network) awaitOpen(ctx context.Context, a, b string) error {
	for {
		m.mu.Lock()
		shut, changed := m.cuts[linkOf(a, b)], m.changed
		m.mu.Unlock()
		if !shut {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Host is a process's side of a [Network]: a transport that can be killed, and frozen.
type Host struct {
	net  *Network
	name string
	turn network.Turn // of the node

	ending <-chan struct{} // closed when the node is to end

	mu     sync.Mutex
	dead   bool
	frozen chan struct{} // closed by the thaw; nil: it is not frozen
	ends   []*conn
	ports  []*listener
}

// Attach sets the turn of the node that uses this transport, which [Host.Freeze] takes, and what is
// closed when the node is to end: that thaws it.
func (h *Host) Attach(turn network.Turn, ending <-chan struct{}) { h.turn, h.ending = turn, ending }

// Freeze stops the host as SIGSTOP stops a process, between two steps of its node: that takes no more
// steps, and no call that waits for the network returns before [Host.Thaw]. What arrives is kept, and
// connections stay open. It returns false if the node ends, which closes ended, before it can be frozen.
func (h *Host) Freeze(ended <-chan struct{}) bool {
	select {
	case <-h.turn:
	case <-ended:
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	frozen := make(chan struct{})
	h.frozen = frozen
	go func() {
		select {
		case <-h.ending:
			h.Thaw()
		case <-frozen:
		}
	}()
	return true
}

// Thaw ends a freeze, if there is one.
func (h *Host) Thaw() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.frozen == nil {
		return
	}
	close(h.frozen)
	h.frozen = nil
	h.turn <- struct{}{}
}

// awaitThaw returns at once unless the host is frozen.
func (h *Host) awaitThaw() {
	h.mu.Lock()
	frozen := h.frozen
	h.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
}

// Listen binds addr; port 0 is any free port.
func (h *Host) Listen(addr string) (net.Listener, error) {
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
	l := &listener{host: h, addr: address(addr), queue: make(chan *conn, 4096), shut: make(chan struct{}), closed: make(chan struct{})}
	m.listeners[addr] = l
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ports = append(h.ports, l)
	return l, nil
}

// Dial takes two message delays.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	defer h.awaitThaw()
	select {
	case <-time.After(h.net.trip() + h.net.trip()):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	h.net.mu.Lock()
	l := h.net.listeners[addr]
	h.net.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("dial %s: %w", addr, transport.ErrRefused)
	}
	if err := h.net.awaitOpen(ctx, h.name, l.host.name); err != nil {
		return nil, err
	}
	there, back := h.net.half(h.name, l.host.name), h.net.half(h.name, l.host.name)
	near := &conn{host: h, in: back, out: there, local: "127.0.0.1:9", remote: l.addr}
	far := &conn{host: l.host, in: there, out: back, local: l.addr, remote: "127.0.0.1:9"}
	if !h.keep(near) || !l.host.keep(far) {
		return nil, fmt.Errorf("dial %s: %w", addr, transport.ErrRefused)
	}
	l.queue <- far
	return near, nil
}

// keep adds a connection's end to this host. It returns false if the host is dead.
func (h *Host) keep(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return false
	}
	h.ends = append(h.ends, c)
	return true
}

// Kill ends the host as the kernel ends a process, frozen or not.
func (h *Host) Kill() {
	h.mu.Lock()
	h.dead = true
	ends, ports, frozen := h.ends, h.ports, h.frozen != nil
	h.mu.Unlock()
	for _, l := range ports {
		l.refuse() // a process that was killed does not see its listener closed
	}
	for _, c := range ends {
		c.out.end(syscall.ECONNRESET)
		c.Close()
	}
	if frozen { // so that its goroutines end
		h.Thaw()
	}
}

type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

type listener struct {
	host  *Host
	addr  address
	queue chan *conn
	shut  chan struct{} // closed when it gets no more connections
	once  sync.Once

	closed  chan struct{}
	closing sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	defer l.host.awaitThaw()
	select {
	case c := <-l.queue:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.refuse()
	l.closing.Do(func() { close(l.closed) })
	return nil
}

// refuse resets the connections that were not accepted, and lets no more come.
func (l *listener) refuse() {
	l.once.Do(func() {
		l.host.net.mu.Lock()
		delete(l.host.net.listeners, string(l.addr))
		l.host.net.mu.Unlock()
		close(l.shut)
		for {
			select {
			case c := <-l.queue: // connections that were not accepted are reset
				c.out.end(syscall.ECONNRESET)
				c.Close()
			default:
				return
			}
		}
	})
}

func (l *listener) Addr() net.Addr { return l.addr }

// conn is an end of a connection. Writing waits only for a thaw.
type conn struct {
	host          *Host
	in, out       *half
	local, remote address
	once          sync.Once
}

func (c *conn) Read(p []byte) (int, error) {
	defer c.host.awaitThaw()
	return c.in.read(p)
}

func (c *conn) Write(p []byte) (int, error) {
	c.host.awaitThaw()
	return c.out.write(p)
}

func (c *conn) CloseWrite() error                 { c.out.end(io.EOF); return nil }
func (c *conn) LocalAddr() net.Addr               { return c.local }
func (c *conn) RemoteAddr() net.Addr              { return c.remote }
func (c *conn) SetReadDeadline(t time.Time) error { c.in.setDeadline(t); return nil }
func (c *conn) SetWriteDeadline(time.Time) error  { return nil }
func (c *conn) SetDeadline(t time.Time) error     { return c.SetReadDeadline(t) }

func (c *conn) Close() error {
	c.once.Do(func() {
		c.out.end(io.EOF)
		c.in.abandon()
	})
	return nil
}

// half is a direction of a connection.
type half struct {
	net  *Network
	link [2]string

	mu       sync.Mutex
	held     bool // nothing arrives
	more     *sync.Cond
	parts    []part
	last     time.Time // arrival of the newest part
	ended    error     // after parts
	endedAt  time.Time
	gone     bool // the reading end is closed
	deadline time.Time
}

// part is bytes that arrive together.
type part struct {
	bytes []byte
	at    time.Time
}

func (m *Network) half(a, b string) *half {
	h := &half{net: m, link: linkOf(a, b)}
	h.more = sync.NewCond(&h.mu)
	m.mu.Lock()
	defer m.mu.Unlock()
	h.held = m.cuts[h.link]
	m.halves[h] = struct{}{}
	return h
}

// hold keeps data on its way from arriving, or releases it.
func (h *half) hold(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = on
	h.more.Broadcast()
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

// arrival returns when data that leaves now arrives, no sooner than earlier data.
func (h *half) arrival() time.Time {
	if at := time.Now().Add(h.net.trip()); at.After(h.last) {
		h.last = at
	}
	return h.last
}

// end sets the last result of reading; the first call counts.
func (h *half) end(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended, h.endedAt = err, h.arrival()
		h.more.Broadcast()
	}
}

func (h *half) abandon() {
	h.net.mu.Lock()
	delete(h.net.halves, h)
	h.net.mu.Unlock()
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
		case h.held:
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

// wait waits for a change, or until at if that is set.
func (h *half) wait(at time.Time) {
	if !at.IsZero() {
		timer := time.AfterFunc(time.Until(at), func() { h.mu.Lock(); h.more.Broadcast(); h.mu.Unlock() })
		defer timer.Stop()
	}
	h.more.Wait()
}
