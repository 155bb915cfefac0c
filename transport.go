package batuta

import (
	"context"
	"net"

	"github.com/batuta-dev/batuta/internal/net/transport"
)

// Transport makes the connections that members speak over: ordered, reliable
// byte streams. Handshake, frames and deadlines are the Node's; a Transport is
// the place to wrap connections, or to replace the network in tests.
type Transport interface {
	// Listen begins to accept connections at addr, HOST:PORT.
	Listen(addr string) (net.Listener, error)
	// Dial connects to addr, HOST:PORT, before ctx ends. Its error wraps
	// [ErrRefused] when the host answers that nobody listens there; the process
	// then counts as gone.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// ErrRefused is what the error of a [Transport]'s Dial wraps where a host is there, but no
// process listens at the address.
var ErrRefused = transport.ErrRefused

// TCP is the [Transport] of a Node that names none.
type TCP struct{}

// Listen implements [Transport].
func (TCP) Listen(addr string) (net.Listener, error) { return transport.Listen(addr) }

// Dial implements [Transport].
func (TCP) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return transport.Dial(ctx, addr)
}
