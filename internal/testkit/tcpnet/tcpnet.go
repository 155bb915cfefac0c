// Package tcpnet is TCP on a port that is bound already. All of it can end at once, as when the kernel
// ends a process.
package tcpnet

import (
	"context"
	"net"
	"strconv"
	"sync"

	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// Host is a process's side of the network: its listener, which is its Listen, and its connections.
type Host struct {
	listener net.Listener

	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

// Bind returns a host that listens at addr, or at a free port for port 0. No outgoing connection
// gets that port while the host is dead: a later host can be bound there.
func Bind(addr string) (*Host, error) {
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	if port == "0" {
		ports, err := freeport.FindOn(ip)
		if err != nil {
			return nil, err
		}
		addr = net.JoinHostPort(ip, strconv.Itoa(ports[0]))
	}
	var l net.Listener
	err = freeport.Again(func() (err error) {
		l, err = transport.Listen(addr)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Host{listener: l}, nil
}

// Listen returns the host as its own listener.
func (h *Host) Listen(string) (net.Listener, error) { return h, nil }

// Addr returns the address that is bound.
func (h *Host) Addr() net.Addr { return h.listener.Addr() }

// Close ends the listener.
func (h *Host) Close() error { return h.listener.Close() }

// Accept waits for a connection.
func (h *Host) Accept() (net.Conn, error) {
	c, err := h.listener.Accept()
	return h.keep(c, err)
}

// Dial connects to addr.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := transport.Dial(ctx, addr)
	return h.keep(c, err)
}

func (h *Host) keep(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		c.Close()
		return nil, net.ErrClosed
	}
	h.conns = append(h.conns, c)
	return c, nil
}

// Kill ends all of it.
func (h *Host) Kill() {
	h.listener.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dead = true
	for _, c := range h.conns {
		c.(*net.TCPConn).SetLinger(0) // a reset, as from a process with unread data
		c.Close()
	}
}
