package boss

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
	"github.com/batuta-dev/batuta/internal/net/refusal"
)

// connections is a network.Network. What is not said to be its own belongs to the
// node's loop; goroutines of connections reach it by Post alone.
type connections struct {
	network.Inbox
	wire     *wire
	site     network.Site
	log      *slog.Logger
	refusals refusal.Log
	timeout  time.Duration // 2·t_max: of a dial, a frame, an answer
	self     frame         // its address, as it stands in every frame
	listener net.Listener

	ctx    context.Context
	cancel context.CancelFunc
	live   sync.WaitGroup // every goroutine
	out    sync.WaitGroup // of them, exchanges not over yet
	guests chan struct{}  // takes one for each connection accepted that does not last
	hosts  hosts

	peers  map[election.ID]*peer
	digest uint32 // of this member's list, to say the same in foreign members' names
	rounds uint64 // elections of foreign members
	warned bool
}

// peer is another member.
type peer struct {
	id          election.ID
	addr        string
	kind        kind
	incarnation uint64 // of a foreign member: made up here
	fresh       bool   // on the list, but the Machine has yet to be told
	gone        bool   // foreign: its process was seen gone; the next is another
	up          bool   // the Machine counts a link as standing
	heard       time.Time
	persistent  *persistent
	spares      []*persistent  // foreign: a subordinate that was told of us twice at once may come twice
	opening     bool           // the dial of a persistent connection is under way
	retry       time.Time      // not before: try again to get one
	flights     int            // exchanges under way
	told        time.Time      // when a beat last went over an exchange; foreign: when it was last announced to
	rival       time.Time      // foreign: since when it has said that it leads although another does; zero: it does not
	pushed      time.Time      // foreign: when it was last made to hold an election
	firm        bool           // foreign: it has announced itself after that; it does not rank us above itself
	point       time.Time      // foreign: when to tell it who leads; zero: never
	pointed     time.Time      // foreign: when it was last to be told that because it asked; zero: long ago
	probed      time.Time      // foreign: when it was last asked whether it leads, beside the foreign boss
	slot        *inbound       // what it has just said, while the Machine decides on the reply
	token       election.Token // foreign: the leadership that it last had here
}

type kind uint8

const (
	unknown kind = iota
	native       // batuta
	legacy       // knows nothing of batuta
)

// maxFlights bounds the exchanges with one member at a time.
const maxFlights = 16

func newConnections(w *wire, l net.Listener, s network.Site) *connections {
	n := &connections{
		wire: w, site: s, log: s.Log, timeout: 2 * s.Timing.TMax, listener: l,
		guests: make(chan struct{}, maxGuests), hosts: hosts{count: map[netip.Addr]int{}},
		peers: map[election.ID]*peer{},
	}
	n.self.IP = string(s.Self)
	_, port, _ := net.SplitHostPort(s.Advertise)
	n.self.Port, _ = strconv.Atoi(port)
	n.self.Batuta = &extra{Cluster: s.Cluster, Incarnation: s.Incarnation}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.Inbox = network.NewInbox(n.ctx.Done())
	return n
}

// Add implements network.Network.
func (n *connections) Add(id election.ID, addr string) {
	if p := n.peers[id]; p != nil {
		p.addr = addr
		return
	}
	n.peers[id] = &peer{id: id, addr: addr}
	n.warnOfTextOrder()
}

// warnOfTextOrder says once that nodes which compare addresses as text would
// order the members otherwise.
func (n *connections) warnOfTextOrder() {
	if n.warned {
		return
	}
	ids := []election.ID{n.site.Self}
	for id := range n.peers {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, election.ID.Compare)
	for i := 1; i < len(ids); i++ {
		if strings.Compare(string(ids[i-1]), string(ids[i])) > 0 {
			n.warned = true
			n.log.Warn("addresses are compared by value; a node that compares them as text ranks these the other way round and may elect another boss",
				"lower", ids[i-1], "higher", ids[i])
			return
		}
	}
}

// Remove implements network.Network.
func (n *connections) Remove(id election.ID) {
	if p := n.peers[id]; p != nil {
		n.endPersistent(p)
		delete(n.peers, id)
	}
}

// Refusal implements network.Network: on this wire no end says why it refuses.
func (n *connections) Refusal(election.ID) string { return "" }

// Unresolved implements network.Network: on this wire addresses have no names.
func (n *connections) Unresolved(election.ID) string { return "" }

// Linked implements network.Network.
func (n *connections) Linked(id election.ID) bool {
	p := n.peers[id]
	return p != nil && p.up
}

// Links implements network.Network.
func (n *connections) Links() (up int) {
	for _, p := range n.peers {
		if p.up {
			up++
		}
	}
	return up
}

// sorted are the peers by address.
func (n *connections) sorted() []*peer {
	peers := make([]*peer, 0, len(n.peers))
	for _, p := range n.peers {
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b *peer) int { return a.id.Compare(b.id) })
	return peers
}

func (n *connections) leads() bool { return n.site.View().Leader.ID == n.site.Self }

func (n *connections) follows(p *peer) bool { return n.site.View().Leader.ID == p.id }

// Hangup implements network.Network.
func (n *connections) Hangup(to election.ID) {
	p := n.peers[to]
	if p == nil {
		return
	}
	p.up = false
	if l := p.persistent; l != nil && (p.kind != legacy || l.dialed || n.leads()) {
		n.endPersistent(p) // else see release
	}
}

// Dial implements network.Network. A leader is dialed for good, anyone else asked
// who it is.
func (n *connections) Dial(to election.ID) {
	p := n.peers[to]
	switch {
	case p == nil:
		n.site.Emit(election.Event{Kind: election.DialFailed, Peer: to})
	case p.up:
		n.linkUp(p)
	case p.opening:
	case n.follows(p):
		n.openPersistent(p)
	default:
		n.identify(p, nil)
	}
}

// Send implements network.Network.
func (n *connections) Send(to election.ID, m *election.Message) {
	p := n.peers[to]
	if p == nil {
		return
	}
	n.digest = cmp.Or(m.Digest, n.digest)
	switch m.Kind {
	case election.Beat, election.Ack, election.Ping, election.Pong:
		n.routine(p, m)
	case election.Election:
		if p.kind == legacy && n.site.View().Defined() {
			n.identify(p, nil) // an election would have it leave its boss
			return
		}
		n.ask(p, m)
	case election.Answer:
		switch {
		case p.slot != nil:
			p.slot.answer(m)
		case !p.up: // too late for the reply, but the Machine awaits a link
			n.identify(p, nil)
		}
	case election.Coordinator:
		n.announce(p, m)
	default:
		n.tell(p, m)
	}
}

// routine sends what flows all the time.
func (n *connections) routine(p *peer, m *election.Message) {
	switch {
	case p.kind == legacy:
		n.answerFor(p, m)
	case p.persistent != nil:
		n.sendPersistent(p, &frame{Type: typeHeartbeat, MyID: n.self.IP, IsBusy: new(bool), Batuta: n.extra(m)})
	case m.Kind == election.Beat && time.Since(p.told) > n.site.Timing.T()/2:
		p.told = time.Now() // it follows another, or has yet to come
		n.identify(p, m)
	}
}

// tell sends what only batuta members understand.
func (n *connections) tell(p *peer, m *election.Message) {
	switch {
	case p.slot != nil && m.Kind == election.ProbeReply && p.slot.report(m):
	case p.kind == legacy:
		n.translate(p, m)
	case p.persistent != nil:
		n.sendPersistent(p, &frame{Type: typeBatuta, Batuta: n.extra(m)})
	default:
		n.identify(p, m)
	}
}

// extra is what this member says to batuta members in a frame.
func (n *connections) extra(m *election.Message) *extra {
	e := *n.self.Batuta
	if m != nil {
		e.Message = outward(m)
	}
	return &e
}

// own begins a frame that says who this member is.
func (n *connections) own(kind string, m *election.Message) *frame {
	f := n.self
	f.Type, f.Batuta = kind, n.extra(m)
	return &f
}

func (n *connections) identification(temporary bool, m *election.Message) *frame {
	f := n.own(typeIdentification, m)
	boss := n.leads()
	f.NodeType, f.IsBoss, f.IsTemporary = n.wire.NodeType, &boss, &temporary
	return f
}

// linkUp tells the Machine that a member can be reached.
func (n *connections) linkUp(p *peer) {
	p.up = true
	n.site.Emit(election.Event{Kind: election.LinkUp, Peer: p.id, Rank: election.Rank{ID: p.id}, Incarnation: p.incarnation})
}

// linkDown tells the Machine that what it had to a member has ended.
func (n *connections) linkDown(p *peer) {
	if p.up {
		p.up = false
		n.site.Emit(election.Event{Kind: election.LinkDown, Peer: p.id, Incarnation: p.incarnation})
	}
}

// failed tells the Machine that a member could not be reached.
func (n *connections) failed(p *peer, refused bool) {
	if refused && p.kind == legacy {
		p.gone = true
	}
	switch {
	case p.persistent != nil && p.up: // that is to say whether it lives
	case p.up:
		n.linkDown(p)
	default:
		n.site.Emit(election.Event{Kind: election.DialFailed, Peer: p.id, Refused: refused})
	}
}

// errCluster refuses batuta members of another cluster.
var errCluster = errors.New("it belongs to another cluster")

// meet takes note that a member has spoken, and which process of it; its error
// says why that process has no business here.
func (n *connections) meet(p *peer, f *frame) error {
	incarnation := p.incarnation
	switch {
	case f.Batuta != nil:
		if f.Batuta.Cluster != n.site.Cluster {
			return errCluster
		}
		incarnation = f.Batuta.Incarnation
	case p.kind != legacy || p.gone:
		incarnation++
	}
	if err := n.meetProcess(p, incarnation); err != nil {
		n.site.Counters.Bad("process")
		n.refusals.Warn(n.log, string(p.id), "process", "frame dropped", "member", p.id, "error", err)
		return err
	}
	p.kind, p.gone, p.heard = legacy, false, time.Now()
	if f.Batuta != nil {
		p.kind = native
	}
	return nil
}

func (n *connections) meetProcess(p *peer, incarnation uint64) error {
	if incarnation == p.incarnation && p.up {
		return nil
	}
	if incarnation > p.incarnation && p.up && p.persistent == nil {
		n.linkDown(p) // the earlier process has only been heard, which proves nothing now
	} else if err := n.site.Admit(election.Rank{ID: p.id}, incarnation); err != nil && !p.fresh {
		return err
	}
	p.fresh = false
	if incarnation != p.incarnation {
		n.endPersistent(p)
		p.incarnation = incarnation
	}
	n.linkUp(p)
	return nil
}

// deliver hands the Machine what a batuta member says.
func (n *connections) deliver(p *peer, e *extra) {
	if e == nil || e.Message == nil {
		return
	}
	m := e.Message.inward()
	if err := n.site.Check(m); err != nil || m.From != p.id || m.To != election.None && m.To != n.site.Self {
		n.site.Counters.Bad("message")
		n.refusals.Warn(n.log, string(p.id), "message", "message dropped", "member", p.id, "from", m.From, "to", m.To, "error", err)
		return
	}
	n.site.Emit(election.Event{Kind: election.Received, Peer: p.id, Message: m})
}

// tickAll has tick called on the loop at every heartbeat.
func (n *connections) tickAll() {
	ticker := time.NewTicker(n.site.Timing.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			n.Post(n.tick)
		case <-n.ctx.Done():
			return
		}
	}
}

// tick does what time brings.
func (n *connections) tick() {
	now := time.Now()
	for _, p := range n.sorted() {
		if p.kind == legacy && p.persistent != nil {
			n.keep(p, now)
		}
		if p.kind == legacy {
			n.lead(p, now)
		}
		if l := p.persistent; l != nil && l.dialed && n.site.View().Defined() && !n.follows(p) && now.Sub(l.began) > n.site.Timing.T() {
			n.endPersistent(p) // it was not taken for the boss after all
		}
		if n.follows(p) && p.up && p.persistent == nil && !now.Before(p.retry) {
			n.openPersistent(p)
		}
	}
}

// enlist has a member put on the list that is not there yet, if it may be.
func (n *connections) enlist(found batuta.Peer) *peer {
	if p := n.peers[found.ID]; p != nil || found.ID == n.site.Self {
		return p
	}
	m := election.Member{Rank: election.Rank{ID: found.ID}, Address: found.Addr}
	if err := n.site.AdmitJoin(m, 1); err != nil {
		n.log.Debug("not registered", "member", m.ID, "error", err)
		return nil
	}
	n.Add(m.ID, m.Address)
	n.site.Emit(election.Event{Kind: election.JoinRequested, Member: m})
	p := n.peers[m.ID]
	p.fresh = true
	return p
}
