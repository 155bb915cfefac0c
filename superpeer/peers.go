package superpeer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
)

// meta is what a node publishes through memberlist: the settings that all nodes must share, and
// information for users and services.
type meta struct {
	method   rules.Method
	fraction float64
	capacity uint32
	round    time.Duration
	id       string
	service  string
	core     bool // the membership is core
}

func (m *meta) membership() Membership {
	if m.core {
		return MembershipCore
	}
	return MembershipFull
}

// coreBit marks the method of a node with membership core: a node that only supports full does not
// accept it as a node of an overlay.
const coreBit = 0x80

// metaVersion is the first byte of an encoded meta.
const metaVersion = 1

var methods = []rules.Method{rules.Tokens, rules.Textbook, rules.Prefix, rules.PrefixExact, rules.Random}

func (m *meta) encode() []byte {
	b := []byte{metaVersion, byte(max(0, slices.Index(methods, m.method)))}
	if m.core {
		b[1] |= coreBit
	}
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(m.fraction))
	b = binary.BigEndian.AppendUint32(b, m.capacity)
	b = binary.BigEndian.AppendUint32(b, uint32(m.round/time.Millisecond))
	b = append(b, byte(len(m.id)))
	b = append(b, m.id...)
	return append(b, m.service...)
}

var errMeta = errors.New("its metadata is not that of an overlay node")

func decodeMeta(b []byte) (m meta, err error) {
	if len(b) < 19 || b[0] != metaVersion || int(b[1]&^coreBit) >= len(methods) || len(b) < 19+int(b[18]) {
		return m, errMeta
	}
	m.method, m.core = methods[b[1]&^coreBit], b[1]&coreBit != 0
	m.fraction = math.Float64frombits(binary.BigEndian.Uint64(b[2:]))
	m.capacity = binary.BigEndian.Uint32(b[10:])
	m.round = time.Duration(binary.BigEndian.Uint32(b[14:])) * time.Millisecond
	m.id, m.service = string(b[19:19+int(b[18])]), string(b[19+int(b[18]):])
	if !plain(m.id, maxID) || !plain(m.service, maxService) {
		return m, errMeta
	}
	return m, nil
}

// differs returns the setting that makes other no node of m's overlay.
func (m *meta) differs(other *meta) error {
	switch {
	case m.core != other.core:
		return fmt.Errorf("its membership is %s, here it is %s", other.membership(), m.membership())
	case m.method != other.method:
		return fmt.Errorf("its method is %s, here it is %s", other.method, m.method)
	case m.fraction != other.fraction:
		return fmt.Errorf("its fraction is %v, here it is %v", other.fraction, m.fraction)
	case m.capacity != other.capacity:
		return fmt.Errorf("its capacity is %d, here it is %d", other.capacity, m.capacity)
	case m.round != other.round:
		return fmt.Errorf("its round is %v, here it is %v", other.round, m.round)
	}
	return nil
}

// uid is the number of a process: its name in memberlist, its key on the ring, and the form of a
// [rules.Peer] in messages. It is drawn at random when the process starts.
type uid uint64

func (u uid) name() string { return fmt.Sprintf("%016x", uint64(u)) }

func parseName(name string) (uid, bool) {
	if len(name) != 16 {
		return 0, false
	}
	u, err := strconv.ParseUint(name, 16, 64)
	return uid(u), err == nil && u != 0 && strings.ToLower(name) == name
}

// Peer is a node of the overlay, for a service.
type Peer struct {
	ID      string `json:"id"`
	Address string `json:"address"`           // at which the overlay reaches it
	Service string `json:"service,omitempty"` // its Config.Service
	Key     uint64 `json:"-"`                 // its identifier on the ring
}

// known is a node that memberlist lists as alive, or that messages have introduced.
type known struct {
	Peer
	peer   rules.Peer
	node   memberlist.Node
	listed bool        // by memberlist
	seen   rules.Round // when a message last mentioned it; guarded by peers
}

// peers is the list of known nodes, and a [memberlist.EventDelegate]. memberlist's goroutines write
// it, and the driver reads it. With membership core the driver adds nodes from messages.
type peers struct {
	own     meta
	numbers numbers // the driver's
	most    int     // nodes known only from messages; 0: memberlist lists all
	feed    *feed   // of the core's memberlist; events of earlier ones are ignored

	// With membership core: they complete a message that is sent, and use one that has come.
	adorn, read func(*message)

	mu      sync.Mutex
	self    uid
	byUID   map[uid]*known
	byPeer  map[rules.Peer]*known
	next    rules.Peer
	changed uint64   // counts changes
	lost    []string // addresses without a listed node
	refused int
	gone    []uid // since the driver's last call
}

func newPeers(own meta) *peers {
	return &peers{own: own, numbers: newNumbers(), byUID: map[uid]*known{}, byPeer: map[rules.Peer]*known{}}
}

// check returns why a node may not take part, or nil.
func (p *peers) check(n *memberlist.Node) error {
	if _, ok := parseName(n.Name); !ok {
		return fmt.Errorf("%q is no overlay node's name", n.Name)
	}
	m, err := decodeMeta(n.Meta)
	if err == nil {
		err = p.own.differs(&m)
	}
	if err != nil {
		return fmt.Errorf("node %s at %s: %w", cmp.Or(m.id, n.Name), n.Address(), err)
	}
	return nil
}

// NotifyAlive implements [memberlist.AliveDelegate]: foreign nodes are not listed.
func (p *peers) NotifyAlive(n *memberlist.Node) error {
	err := p.check(n)
	if err != nil {
		p.mu.Lock()
		p.refused++
		p.mu.Unlock()
	}
	return err
}

// NotifyMerge implements [memberlist.MergeDelegate]: a node that joins a foreign overlay receives
// the reason of the refusal.
func (p *peers) NotifyMerge(nodes []*memberlist.Node) error {
	for _, n := range nodes {
		if n.State != memberlist.StateAlive {
			continue
		}
		if err := p.check(n); err != nil {
			return err
		}
	}
	return nil
}

func (p *peers) NotifyJoin(n *memberlist.Node) { p.joined(n, nil) }

func (p *peers) joined(n *memberlist.Node, from *feed) {
	u, ok := parseName(n.Name)
	if !ok {
		return
	}
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.feed != from {
		return
	}
	k := &known{Peer: Peer{cmp.Or(m.id, n.Name), n.Address(), m.service, uint64(u)}, node: *n, listed: p.most == 0 || from != nil}
	k.node.Addr = append(net.IP(nil), n.Addr...)
	p.put(u, k)
	p.lost = slices.DeleteFunc(p.lost, func(a string) bool { return a == k.Address })
	p.changed++
}

// put lists k, under its previous handle if it was known before.
func (p *peers) put(u uid, k *known) {
	if old := p.byUID[u]; old != nil {
		k.peer, k.seen = old.peer, max(old.seen, k.seen)
	} else {
		k.peer = p.next
		p.next++
	}
	p.byUID[u], p.byPeer[k.peer] = k, k
}

func (p *peers) NotifyUpdate(n *memberlist.Node) { p.NotifyJoin(n) }

// maxLost is how many of the lost nodes are retried: a partition may have separated them, and may
// end. Nodes that have left are included: a founder that restarts may have no further address to
// join through.
const maxLost = 64

func (p *peers) NotifyLeave(n *memberlist.Node) { p.left(n, nil) }

func (p *peers) left(n *memberlist.Node, from *feed) {
	u, _ := parseName(n.Name)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byUID[u]
	if k == nil || p.feed != from {
		return
	}
	p.changed++
	if p.most == 0 {
		p.remove(u, k)
	} else if p.unlist(u, k); u == p.self { // it has left the core: memberlist gives no reason
		return
	}
	for _, back := range p.byUID {
		if back.Address == k.Address {
			return // a new process is there already
		}
	}
	if len(p.lost) == maxLost {
		p.lost = p.lost[1:]
	}
	p.lost = append(p.lost, k.Address)
}

func (p *peers) remove(u uid, k *known) {
	delete(p.byUID, u)
	delete(p.byPeer, k.peer)
	p.gone = append(p.gone, u)
}

func (p *peers) of(u uid) (*known, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.byUID[u]
	return k, ok
}

func (p *peers) at(peer rules.Peer) (*known, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.byPeer[peer]
	return k, ok
}

// handle returns the driver's handle for u; None if it is not known.
func (p *peers) handle(u uid) rules.Peer {
	if k, ok := p.of(u); ok {
		return k.peer
	}
	return rules.None
}

func (p *peers) uidOf(peer rules.Peer) uid {
	if k, ok := p.at(peer); ok {
		return uid(k.Key)
	}
	return 0
}

// places returns all listed nodes, if anything has changed since; else nil.
func (p *peers) places(since uint64) ([]rules.Place, uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since == p.changed {
		return nil, since
	}
	list := make([]rules.Place, 0, len(p.byUID))
	for u, k := range p.byUID {
		if k.listed {
			list = append(list, rules.Place{Key: uint64(u), Peer: k.peer})
		}
	}
	return list, p.changed
}

// takeGone returns the nodes that have gone since the last call.
func (p *peers) takeGone() []uid {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.gone
	p.gone = nil
	return list
}

// retry returns a lost node's address to try again, chosen by draw; "" for none.
func (p *peers) retry(draw uint64) (addr string, share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lost) == 0 {
		return "", 0
	}
	return p.lost[draw%uint64(len(p.lost))], float64(len(p.lost)) / float64(max(len(p.byUID), 1))
}

// member returns the address of a listed node other than this, chosen by draw; "" for none.
func (p *peers) member(draw uint64) string {
	if k := p.some(draw, true); k != nil {
		return k.Address
	}
	return ""
}
