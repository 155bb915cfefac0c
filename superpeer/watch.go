package superpeer

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/internal/eventlog"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// Values of [Event].Kind.
const (
	EventSuper    = "super"    // this node is a super peer now
	EventOrdinary = "ordinary" // this node is no super peer any longer
	EventHome     = "home"     // a new super peer serves it; without Home: none does
	EventClient   = "client"   // a client came or went
)

// Event is a change of this node's state.
type Event struct {
	Time    time.Time
	Kind    string // an Event constant
	Token   int32  // EventSuper, EventOrdinary
	Version uint32
	Home    *Peer   // EventHome; nil: no super peer serves it
	RTT     float64 // EventHome: milliseconds; negative: not measured
	Client  *Client // EventClient
	Came    bool    // EventClient
}

// Client is a node that this node serves.
type Client struct {
	Peer
	RTT float64 `json:"rtt_ms"` // as the client measured it, milliseconds; negative: not measured
	at  rules.Position
}

// ErrBehind ends a Watch with a reader that is too slow.
var ErrBehind = errors.New("the reader is behind: events were lost; watch again")

// maxBehind is how many events wait for a reader.
const maxBehind = 1024

// Watch returns the present state and then the changes of this node, until ctx or the member ends.
// A reader that is far behind gets ErrBehind at the end.
func (m *Member) Watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		m.published.Lock()
		place, present := m.events.Place(), m.view.Load().events(time.Now())
		m.published.Unlock()
		eventlog.Walk(ctx, m.events, place, ErrBehind,
			func(Event) []Event { return present },
			func(e Event) (Event, bool) { return e, true })(yield)
	}
}

// events returns the events that describe v to a new reader.
func (v *view) events(now time.Time) []Event {
	list := v.since(&view{rtt: -1}, now)
	if !v.super && v.home == nil {
		list = append(list, Event{Time: now, Kind: EventHome, RTT: -1})
	}
	return list
}

// since returns the changes between two views.
func (v *view) since(old *view, now time.Time) (list []Event) {
	if old.super && (!v.super || old.token != v.token) {
		list = append(list, Event{Time: now, Kind: EventOrdinary, Token: old.token, Version: old.version})
	}
	if v.super && (!old.super || old.token != v.token) {
		list = append(list, Event{Time: now, Kind: EventSuper, Token: v.token, Version: v.version})
	}
	if !v.super && !samePeer(v.home, old.home) {
		list = append(list, Event{Time: now, Kind: EventHome, Home: v.home, RTT: v.rtt})
	}
	return append(list, clientsSince(v.clients, old.clients, now)...)
}

func samePeer(a, b *Peer) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// clientsSince compares two lists that are sorted by key.
func clientsSince(fresh, old []Client, now time.Time) (list []Event) {
	for len(fresh) > 0 || len(old) > 0 {
		switch {
		case len(old) == 0 || len(fresh) > 0 && fresh[0].Key < old[0].Key:
			list = append(list, Event{Time: now, Kind: EventClient, Client: &fresh[0], Came: true})
			fresh = fresh[1:]
		case len(fresh) == 0 || old[0].Key < fresh[0].Key:
			list = append(list, Event{Time: now, Kind: EventClient, Client: &old[0]})
			old = old[1:]
		default:
			fresh, old = fresh[1:], old[1:]
		}
	}
	return list
}

// notice publishes at once those changes for which readers must not wait.
func (d *driver) notice() {
	v := d.m.view.Load()
	token, _, super := d.node.Holding()
	if super != v.super || super && token != v.token || !super && d.homeKey() != keyOf(v.home) {
		d.publish()
	}
}

func (d *driver) homeKey() uint64 { return uint64(d.m.peers.uidOf(d.node.Home())) }

func keyOf(p *Peer) uint64 {
	if p == nil {
		return 0
	}
	return p.Key
}

// publish publishes the present state.
func (d *driver) publish() {
	v := &view{rtt: -1, nodes: d.size}
	if k, ok := d.m.peers.of(d.self); ok {
		v.self = k.Peer
	}
	v.token, v.version, v.super = d.node.Holding()
	if k, ok := d.m.peers.at(d.node.Home()); ok && !v.super {
		v.home, v.rtt = &k.Peer, float64(d.node.HomeRTT())
	}
	v.clients = d.m.clients(d.node.Serving())
	v.live, v.shareWrong, v.unserved = d.group.supers(v.super), d.lasted(&d.share), d.lasted(&d.unserved)
	if c := d.m.core; c != nil {
		v.core = c.list != nil
	}
	old := d.m.view.Load()
	if old == nil {
		old = &view{rtt: -1}
	}
	if old.super && !v.super {
		d.retire()
	}
	d.m.published.Lock()
	defer d.m.published.Unlock()
	d.m.view.Store(v)
	for _, e := range v.since(old, time.Now()) {
		d.m.events.Add(e)
	}
}

// clients returns the nodes of leases, by key, without those that memberlist has lost.
func (m *Member) clients(leases []rules.Lease) []Client {
	list := make([]Client, 0, len(leases))
	for i := range leases {
		if k, ok := m.peers.at(leases[i].Peer); ok {
			list = append(list, Client{k.Peer, float64(leases[i].RTT), leases[i].At})
		}
	}
	slices.SortFunc(list, func(a, b Client) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// ID returns the node's name for users, random unless it was configured.
func (m *Member) ID() string { return m.view.Load().self.ID }

// Home returns the super peer that serves this node. ok is false while there is none, and on a
// super peer.
func (m *Member) Home() (home Peer, ok bool) {
	v := m.view.Load()
	if v.home == nil {
		return Peer{}, false
	}
	return *v.home, true
}

// IsSuperPeer reports whether this node is a super peer.
func (m *Member) IsSuperPeer() bool { return m.view.Load().super }

// Clients returns the nodes that this node serves.
func (m *Member) Clients() []Client { return slices.Clone(m.view.Load().clients) }

// SuperPeers returns the super peers that this node knows of, except itself.
func (m *Member) SuperPeers() (list []Peer) {
	for _, n := range m.book.snapshot() {
		if k, ok := m.peers.of(n.holder); ok && n.holder != m.peers.self {
			list = append(list, k.Peer)
		}
	}
	return list
}

// ErrNoHolder means that no holder of a token is known yet.
var ErrNoHolder = errors.New("no super peer is known for this key yet")

// Lookup returns the super peer with key in its range of the identifier space: with the methods
// prefix and prefix-exact, the super peer that serves the nodes of that range. Hash your keys, so
// that they are spread evenly.
func (m *Member) Lookup(key uint64) (Peer, error) {
	v := m.view.Load()
	cfg := m.cfg.node(rules.NewRing(nil))
	token := int32(rules.RangeOf(key, cfg.Count(v.nodes)))
	if v.super && v.token == token {
		return v.self, nil
	}
	if u, ok := m.book.holder(token); ok {
		if k, ok := m.peers.of(u); ok {
			return k.Peer, nil
		}
	}
	return Peer{}, ErrNoHolder
}
