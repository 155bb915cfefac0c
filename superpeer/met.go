package superpeer

import (
	"cmp"
	"encoding/binary"
	"math"
	"net"
	"slices"

	"github.com/hashicorp/memberlist"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// With the core's membership, most nodes are known only from messages: each has the addresses of
// its sender and of all nodes that it names. They are kept while messages mention them, and never
// more than maxMet.

// introduction is a node and its address.
type introduction struct {
	_       struct{} `cbor:",toarray"`
	Node    uid
	Addr    []byte // IP and port
	ID      string
	Service string
}

const (
	keepMet  = 120     // rounds for which a node is kept without a mention
	keepLost = 20      // rounds without a mention of a node that left the core, after which it may be lost
	maxIntro = 1 << 12 // introductions in a message
	baseMet  = 512     // nodes known from messages, plus those below
	metShare = 16      // times as many as a super peer serves on average
)

// maxMet returns the most nodes that may be known from messages.
func maxMet(fraction float64, capacity int) int {
	return baseMet + int(metShare/fraction) + min(capacity, math.MaxUint16)
}

func introduce(u uid, k *known) introduction {
	ip := k.node.Addr
	if short := ip.To4(); short != nil {
		ip = short
	}
	id := k.ID
	if id == u.name() {
		id = "" // it is only shown if there is no id
	}
	return introduction{Node: u, Addr: binary.BigEndian.AppendUint16(append([]byte(nil), ip...), k.node.Port), ID: id, Service: k.Service}
}

// read returns the node that i introduces; ok only if its address is valid.
func (i *introduction) read() (k *known, ok bool) {
	n := len(i.Addr) - 2
	if i.Node == 0 || n != net.IPv4len && n != net.IPv6len || !plain(i.ID, maxID) || !plain(i.Service, maxService) {
		return nil, false
	}
	k = &known{node: memberlist.Node{Name: i.Node.name(), Addr: net.IP(i.Addr[:n]), Port: binary.BigEndian.Uint16(i.Addr[n:])}}
	k.Peer = Peer{cmp.Or(i.ID, i.Node.name()), k.node.Address(), i.Service, uint64(i.Node)}
	return k, k.node.Port != 0 && !k.node.Addr.IsUnspecified() && !k.node.Addr.IsMulticast()
}

// meet records the nodes that a message introduces. A known node can only be changed by its own
// message; a node that memberlist lists stays as memberlist has it.
func (p *peers) meet(w *message, now rules.Round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.byUID[w.From]; k != nil {
		k.seen = now
	}
	for i := range w.Nodes[:min(len(w.Nodes), maxIntro)] {
		x := &w.Nodes[i]
		old := p.byUID[x.Node]
		if old != nil && (old.listed || x.Node != w.From) {
			old.seen = now
			continue
		}
		k, ok := x.read()
		if !ok || x.Node == p.self || old != nil && old.Peer == k.Peer || old == nil && len(p.byUID) >= 2*p.most {
			continue
		}
		k.seen = now
		p.put(x.Node, k)
	}
}

// sweep removes nodes that have not been mentioned for long, and if there are too many those
// mentioned longest ago. It keeps listed nodes and those in pinned.
func (p *peers) sweep(now rules.Round, pinned map[uid]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	surplus := len(p.byUID) - p.most
	var loose []*known
	for u, k := range p.byUID {
		if k.listed || pinned[u] || u == p.self {
			continue
		}
		if len(p.lost) > 0 && now-k.seen < keepLost {
			p.lost = slices.DeleteFunc(p.lost, func(a string) bool { return a == k.Address })
		}
		if surplus > 0 || now-k.seen >= keepMet {
			loose = append(loose, k)
		}
	}
	slices.SortFunc(loose, func(a, b *known) int { return cmp.Or(cmp.Compare(a.seen, b.seen), cmp.Compare(a.Key, b.Key)) })
	for i, k := range loose {
		if i >= surplus && now-k.seen < keepMet {
			return
		}
		p.remove(uid(k.Key), k)
	}
}

// unlist makes k a node that is known only from messages, and drops its announcement.
func (p *peers) unlist(u uid, k *known) {
	met := *k
	met.listed = false
	p.put(u, &met)
	p.gone = append(p.gone, u)
}

// unlistAll forgets which nodes are in the core, but keeps the nodes.
func (p *peers) unlistAll(now rules.Round) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.feed = nil
	for u, k := range p.byUID {
		if k.listed {
			met := *k
			met.listed, met.seen = false, max(k.seen, now)
			p.put(u, &met)
		}
	}
	p.changed++
}

// introductions returns introductions of the sender, if sender is set, and of all nodes that w
// names.
func (p *peers) introductions(w *message, sender bool) (list []introduction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	named := map[uid]bool{0: true, p.self: !sender, w.To: true}
	name := func(u uid) {
		if k := p.byUID[u]; k != nil && !named[u] {
			named[u] = true
			list = append(list, introduce(u, k))
		}
	}
	name(p.self)
	name(w.Peer)
	for _, r := range w.Others {
		name(r.Peer)
	}
	for _, u := range w.Peers {
		name(u)
	}
	for i := range w.Leases {
		name(w.Leases[i].Peer)
	}
	for _, raw := range w.Told {
		name(holderOf(raw))
	}
	return list
}

// holderOf returns the holder in an encoded announcement.
func holderOf(raw []byte) uid {
	if len(raw) < 9 {
		return 0
	}
	return uid(binary.BigEndian.Uint64(raw[1:]))
}

// some returns a node other than this, chosen by draw among those that memberlist lists or those
// known only from messages; or nil.
func (p *peers) some(draw uint64, listed bool) *known {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []*known
	for u, k := range p.byUID {
		if k.listed == listed && u != p.self {
			list = append(list, k)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(a, b *known) int { // independent of the map's order
		return cmp.Compare(rules.Mix(a.Key^draw), rules.Mix(b.Key^draw))
	})
}

// listing returns the number of nodes that memberlist lists.
func (p *peers) listing() (k int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.byUID {
		if x.listed {
			k++
		}
	}
	return k
}
