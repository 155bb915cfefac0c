// Package enginetest is what the tests of engines share: servers that are started and
// killed, and lines to them that are cut.
package enginetest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy passes connections on to a server until it is cut: then nothing passes and nothing
// ends, as when a network drops what is sent.
type Proxy struct {
	listener net.Listener

	mu    sync.Mutex
	to    string
	whole chan struct{} // closed while it is not cut
	conns map[net.Conn]struct{}
	ended bool
	dead  chan struct{} // closed: what was connected before has nothing passed on for good
}

// NewProxy begins to pass on to the server at HOST:PORT.
func NewProxy(t testing.TB, to string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, to: to, whole: make(chan struct{}), conns: map[net.Conn]struct{}{}, dead: make(chan struct{})}
	close(p.whole)
	go p.accept()
	t.Cleanup(p.close)
	return p
}

// Addr is where it listens, HOST:PORT.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut lets nothing pass any more, until heal is called.
func (p *Proxy) Cut() (heal func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.whole = make(chan struct{})
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(p.whole)
	})
}

// Drop stops all traffic of the present connections, without ending them; new connections work. The
// effect is that of a server that vanishes, if its address leads to several servers.
func (p *Proxy) Drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.dead)
	p.dead = make(chan struct{})
}

// Turn directs new connections to a different server. Present connections go on.
func (p *Proxy) Turn(to string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = to
}

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for c := range p.conns {
		c.Close()
	}
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		go p.pass(c)
	}
}

// keep notes a connection, to be closed with the proxy.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) pass(c net.Conn) {
	if !p.keep(c) {
		return
	}
	defer c.Close()
	p.mu.Lock()
	to := p.to
	p.mu.Unlock()
	s, err := net.Dial("tcp", to)
	if err != nil || !p.keep(s) {
		return
	}
	defer s.Close()
	p.mu.Lock()
	dead := p.dead
	p.mu.Unlock()
	go p.pump(s, c, dead)
	p.pump(c, s, dead)
}

func (p *Proxy) pump(to, from net.Conn, dead <-chan struct{}) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		whole := p.whole
		p.mu.Unlock()
		<-whole
		select {
		case <-dead:
			io.Copy(io.Discard, from) // until the client gives it up, or the test ends
			return
		default:
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
