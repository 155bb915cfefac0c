// Package boss makes a Node use the protocol of docs/sources.md, "Scrapper": nodes identified by
// their IP address elect a boss by JSON over temporary TCP connections. Members that run batuta
// and programs without any support for it mix in a cluster, so such a system can be replaced
// node by node.
//
// The Machine's messages are mapped to that protocol as follows; docs/boss-protocol.md describes
// the frames.
//
//	ELECTION     election, on a temporary connection
//	ANSWER       election_response, the reply on it; no reply: the connection is closed
//	COORDINATOR  new_boss, then a temporary identification with is_boss true
//	Query        a temporary identification as a question; its reply is the Report
//	Beat, Ack    between batuta members heartbeat, on the persistent connection of a
//	             subordinate and its boss; for a foreign member they are made up here
//	             while that connection is open and not silent for 90 s
//	Handover     to a foreign boss an election from an address below all: it asks this
//	             member in turn, which answers, and leads no longer
//	all further  only between batuta members, in a field that foreign programs ignore
//
// A link is not a connection here. It lasts from the last exchange with a member until the
// Machine hangs up, the persistent connection ends, or an exchange fails.
//
// What is lost: foreign members have no epochs. When a foreign member announces itself, each
// batuta member gives it the next epoch above the highest that it has seen, so epochs here still
// never decrease. Two batuta members may number such a boss differently until they communicate.
// A foreign member acknowledges nothing, so a boss that receives from foreign members but
// reaches none does not step down.
package boss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/discovery"
	"github.com/batuta-dev/batuta/internal/net/network"
)

// DefaultPort is the default port of nodes.
const DefaultPort = 8080

// Defaults of the timing on this wire. An election waits 3 s for each answer (docs/sources.md,
// "Scrapper"), which is 2·t_max.
const (
	DefaultHeartbeat = 500 * time.Millisecond // between batuta members
	DefaultTMax      = 1500 * time.Millisecond
	DefaultTProcess  = 300 * time.Millisecond
)

// Announce is how a new boss announces itself.
type Announce int

// Ways to announce.
const (
	Both           Announce = iota // new_boss, then a temporary identification
	NewBoss                        // only new_boss
	Identification                 // only the older form: a temporary identification with is_boss true
)

// Options set up the wire. The zero value of each field but NodeType works.
type Options struct {
	NodeType  string        // the kind of node, such as "scrapper"; announcements of different kinds are ignored; required
	Announce  Announce      // default Both
	Preempt   bool          // a returning member of higher address takes over; default: it follows the boss that it finds, as in "Scrapper"
	Heartbeat time.Duration // between heartbeats to foreign members; default 30 s
	Silence   time.Duration // after which a foreign member counts as dead; batuta members wait a Heartbeat more; default 90 s
}

var (
	errCluster = errors.New("it belongs to another cluster") // a batuta member that is refused
	errTooLong = errors.New("a frame holds at most 65535 bytes")
)

// wire is a batuta.Wire.
type wire struct{ Options }

// New returns the wire of a node.
func New(o Options) batuta.Wire {
	o.Heartbeat = cmp.Or(o.Heartbeat, 30*time.Second)
	o.Silence = cmp.Or(o.Silence, 90*time.Second)
	return &wire{o}
}

// Defaults fills in this wire's timing. If c has no address to listen on, it fills in port 8080
// of the address that is the node's id.
func (w *wire) Defaults(c batuta.Config) batuta.Config {
	c.Heartbeat = cmp.Or(c.Heartbeat, DefaultHeartbeat)
	c.TMax = cmp.Or(c.TMax, DefaultTMax)
	c.TProcess = cmp.Or(c.TProcess, DefaultTProcess)
	c.NoPreempt = c.NoPreempt || !w.Preempt
	if c.Listen == "" && c.ID != "" {
		c.Listen = net.JoinHostPort(string(c.ID), strconv.Itoa(DefaultPort))
	}
	if host, port, err := net.SplitHostPort(c.Listen); err == nil && c.Advertise == "" && port != "0" && host != string(c.ID) && c.ID != "" {
		c.Advertise = net.JoinHostPort(string(c.ID), port)
	}
	return c
}

// Silence implements batuta.Wire. Foreign nodes do not notice a link that is down for less, so a
// batuta member must not miss its boss sooner. They check every heartbeat: after a further
// heartbeat all of them have noticed, and have forgotten that boss. A node that was called to an
// election before would still count on it.
func (w *wire) Silence() time.Duration { return w.Options.Silence + w.Options.Heartbeat }

// Check implements batuta.Wire.
func (w *wire) Check(c batuta.Config) error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if w.NodeType == "" {
		fault("the boss wire needs a node type: give the one that the other nodes have, such as scrapper")
	}
	if id, err := election.ParseID(string(c.ID)); err != nil || id.Kind() != election.Address {
		fault("id %q: on the boss wire it is this member's IP address, such as 172.18.0.5", c.ID)
	}
	if c.Priority != 0 {
		fault("priority %d: on the boss wire members rank by address only; leave it out", c.Priority)
	}
	if c.Algorithm != nil && c.Algorithm.Name() != "bully" {
		fault("algorithm %s: the boss wire carries only bully", c.Algorithm.Name())
	}
	if c.Observer {
		fault("observer: the boss wire cannot announce it to the other nodes; leave it out")
	}
	for _, p := range c.Peers {
		host, _, err := net.SplitHostPort(p.Addr)
		if id, bad := election.ParseID(host); err == nil && (bad != nil || id != p.ID) {
			fault("member %s at %s: on the boss wire a member's id is its IP address", p.ID, p.Addr)
		}
	}
	return errors.Join(faults...)
}

// Peers looks the names up: every address is a member, with the address as its id.
func (w *wire) Peers(ctx context.Context, join []string) []batuta.Peer {
	peers, _ := lookup(ctx, join)
	return peers
}

func lookup(ctx context.Context, join []string) (peers []batuta.Peer, err error) {
	addrs, err := discovery.Addresses(ctx, join)
	for _, addr := range addrs {
		if a, bad := netip.ParseAddrPort(addr); bad == nil {
			peers = append(peers, peerAt(a.Addr().Unmap(), strconv.Itoa(int(a.Port()))))
		}
	}
	return peers, err
}

// Open implements batuta.Wire.
func (w *wire) Open(l net.Listener, s network.Site) network.Network {
	n := newConnections(w, l, s)
	n.live.Go(n.acceptAll)
	n.live.Go(n.tickAll)
	if len(s.Join) > 0 {
		n.live.Go(n.lookupAll)
	}
	return n
}

// Pauses between two lookups of the names to join: after a failure, and else.
const (
	lookupRetry = time.Second
	lookupPause = 5 * time.Second
)

// lookupAll looks the names up repeatedly, because their addresses change.
func (n *connections) lookupAll() {
	pause, failing := lookupRetry, false
	for {
		select {
		case <-time.After(pause):
		case <-n.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(n.ctx, lookupPause)
		peers, err := lookup(ctx, n.site.Join)
		cancel()
		if pause = lookupPause; err != nil {
			pause = lookupRetry
		}
		if err != nil && !failing && n.ctx.Err() == nil {
			n.log.Warn("cannot resolve a name to join through; trying again", "error", err)
		}
		failing = err != nil
		n.Post(func() {
			for _, p := range peers {
				n.enlist(p)
			}
		})
	}
}
