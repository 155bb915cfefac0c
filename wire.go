package batuta

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/transport"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// A Wire replaces batuta's own protocol; it is set as [Config].Wire, a
// value of its own for each Node. Package compat/boss has such a Wire. What Open takes and returns is
// internal: only packages of this module can implement it.
type Wire interface {
	// Defaults fills in what c leaves open as it should be on this wire.
	Defaults(c Config) Config
	// Check reports what of c does not go with this wire, and how to mend it.
	Check(c Config) error
	// Silence is what is borne of a member before it is suspected; 0: T.
	Silence() time.Duration
	// Peers are those that it finds at the addresses of [Config.Join] before the
	// node starts; it may take until ctx ends.
	Peers(ctx context.Context, join []string) []Peer
	// Open serves the connections that l accepts, until it is shut.
	Open(l net.Listener, s network.Site) network.Network
}

// checkWire asks the Wire what of c it cannot serve.
func (c Config) checkWire() []error {
	if err := c.Wire.Check(c); err != nil {
		return []error{config("%w", err)}
	}
	return nil
}

// lookupTime bounds the wait for a name server.
const lookupTime = 2 * time.Second

// find adds the members that the Wire finds by itself.
func (n *Node) find(ctx context.Context) {
	if n.cfg.Wire == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	for _, p := range n.cfg.Wire.Peers(ctx, n.cfg.Join) {
		known := func(other Peer) bool { return other.ID == p.ID }
		if p.ID != n.id && !slices.ContainsFunc(n.cfg.Peers, known) {
			n.cfg.Peers = append(n.cfg.Peers, p)
		}
	}
}

// connect opens the network: batuta's own, or that of the Wire.
func (n *Node) connect(listener net.Listener) {
	if n.cfg.Wire != nil {
		n.net = n.cfg.Wire.Open(listener, n.site())
	} else {
		n.transport = transport.Open(listener, n.cfg.Transport.Dial, n.dialSecurity(), n.site(), len(n.cfg.Peers))
		n.net = n.transport
	}
	for _, m := range n.machine.Members() {
		if m.ID != n.id {
			n.know(m.ID, m.Address)
		}
	}
}

// know keeps where a member listens.
func (n *Node) know(id ID, addr string) {
	n.addrs[id] = addr
	n.net.Add(id, addr)
}

// site is this node as its network sees it.
func (n *Node) site() network.Site {
	return network.Site{
		Self: n.id, Cluster: n.cfg.Cluster, Election: n.cfg.Election, Algorithm: n.cfg.Algorithm, Observer: n.cfg.Observer && !n.cfg.Witness,
		Incarnation: n.incarnation, Advertise: n.cfg.Advertise, Join: n.cfg.Join, Timing: n.cfg.timing(),
		Log: n.cfg.Logger, Counters: &n.counters,
		Turn: n.turn, Settle: func() { n.drain(); n.arm() },
		Emit: n.hear,
		Admit: func(peer Rank, incarnation uint64) error {
			return n.machine.Admit(n.now(), peer, incarnation)
		},
		AdmitAnswer: func(peer Rank, incarnation uint64) error {
			return n.machine.AdmitAnswer(n.now(), peer, incarnation)
		},
		AdmitJoin: func(e election.Member, incarnation uint64) error {
			return n.machine.AdmitJoin(n.now(), e, incarnation)
		},
		Attest: func(secret []byte) bool {
			ends := n.oaths.opens != nil && n.oaths.opens(secret)
			if ends {
				n.emit(election.Event{Kind: election.Attested, Proof: secret})
			}
			return ends
		},
		Enter:  n.enter,
		SameID: n.sameID,
		Rank:   n.machine.Self, Entry: n.machine.Entry,
		Check: wire.CheckMessage,
		View:  n.machine.View, Held: n.machine.Held, Highest: n.machine.Highest,
	}
}

// hear steps the Machine with the events of the network.
func (n *Node) hear(ev election.Event) {
	switch ev.Kind {
	case election.Received:
		n.counters.Received(ev.Message.Kind)
	case election.LinkUp:
		n.met = true
	}
	n.emit(ev)
}

// background runs f beside the loop; ctx ends with the network.
func (n *Node) background(f func(ctx context.Context)) {
	n.beside.Go(func() { f(n.ctx) })
}

// disconnect ends the network, and what runs beside the loop.
func (n *Node) disconnect() {
	n.net.Shut(n.cfg.TMax)
	n.cancel()
	n.beside.Wait()
}

// Transport makes the connections that members speak over: ordered, reliable
// byte streams. Handshake, frames and deadlines are the Node's; a Transport is
// the place to wrap connections, or to replace the network in tests.
type Transport interface {
	// Listen begins to accept connections at addr, HOST:PORT.
	Listen(addr string) (net.Listener, error)
	// Dial connects to addr, HOST:PORT, before ctx ends. Its error wraps
	// [ErrRefused] when the host answers that nothing listens there; the process
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
