package boss

import (
	"cmp"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/net/network"
)

// connections is a network.Network. What is not marked for any goroutine is used in a turn of
// the node; goroutines of connections reach it only by Post.
type connections struct {
	network.Inbox
	wire     *wire
	site     site
	log      *slog.Logger
	timeout  time.Duration // 2·t_max: of a dial, a frame, an answer
	self     identity
	listener net.Listener

	ctx    context.Context
	cancel context.CancelFunc
	live   sync.WaitGroup // every goroutine
	out    sync.WaitGroup // of them, exchanges not over yet
	guests guests         // any goroutine
	dialer dialer         // any goroutine
	faults *faults        // any goroutine

	peers  peers
	rounds uint64 // elections of foreign members
	warned bool
}

// maxFlights is how many exchanges with a member run at a time.
const maxFlights = 16

func newConnections(w *wire, l net.Listener, s network.Site) *connections {
	n := &connections{
		wire: w, log: s.Log, timeout: 2 * s.Timing.TMax, listener: l, peers: peers{},
		guests: guests{hosts: map[netip.Addr]int{}}, faults: &faults{log: s.Log, counters: s.Counters},
	}
	n.site = site{Site: s, faults: n.faults}
	n.self = identity{nodeType: w.NodeType, log: s.Log}
	n.self.IP = string(s.Self)
	_, port, _ := net.SplitHostPort(s.Advertise)
	n.self.Port, _ = strconv.Atoi(port)
	n.self.Batuta = &extra{Cluster: s.Cluster, Incarnation: s.Incarnation}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.dialer = dialer{ctx: n.ctx, from: n.self.IP, timeout: n.timeout, log: s.Log, faults: n.faults}
	n.Inbox = network.NewInbox(s, n.ctx.Done())
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

// warnOfTextOrder warns once if nodes that compare addresses as text order the members differently.
func (n *connections) warnOfTextOrder() {
	if lower, higher, found := n.peers.textOrder(n.site.Self); found && !n.warned {
		n.warned = true
		n.log.Warn("addresses are compared by value; a node that compares them as text ranks these the other way round and may elect another boss",
			"lower", lower, "higher", higher)
	}
}

// Remove implements network.Network.
func (n *connections) Remove(id election.ID) {
	if p := n.peers[id]; p != nil {
		p.endPersistent()
		delete(n.peers, id)
	}
}

// Refusal implements network.Network: on this wire a refusal has no reason.
func (n *connections) Refusal(election.ID) string { return "" }

// Unresolved implements network.Network: on this wire addresses have no names.
func (n *connections) Unresolved(election.ID) string { return "" }

// Linked implements network.Network.
func (n *connections) Linked(id election.ID) bool { return n.peers[id] != nil && n.peers[id].up }

// Links implements network.Network.
func (n *connections) Links() int { return n.peers.up() }

// Hangup implements network.Network.
func (n *connections) Hangup(to election.ID) {
	p := n.peers[to]
	if p == nil {
		return
	}
	p.up = false
	if l := p.persistent; l != nil && (p.kind != legacy || l.dialed || n.site.leads()) {
		p.endPersistent() // else see release
	}
}

// Lead implements network.Network: this member presents itself to the boss, and keeps no further
// connection (docs/sources.md, "Scrapper").
func (n *connections) Lead(t election.Token) {
	if !t.Defined() {
		return
	}
	for _, p := range n.peers.sorted() {
		p.rival, p.probed = time.Time{}, time.Now()
		switch l := p.persistent; {
		case l == nil:
		case !l.dialed && p.kind == legacy && p.id != t.Leader.ID:
			l.idle, l.shown = time.Time{}, false // see release
		case l.dialed && p.id != t.Leader.ID, !l.dialed && t.Leader.ID != n.site.Self:
			p.persistent = nil
			l.finish() // queued frames for a batuta member may have the new leader
			for _, spare := range p.spares {
				spare.close()
			}
			p.spares = nil
		}
		if p.id == t.Leader.ID && p.persistent == nil {
			n.openPersistent(p)
		}
	}
}

// Dial implements network.Network. It dials a leader for a persistent connection, and asks any
// further member to identify itself.
func (n *connections) Dial(to election.ID) {
	p := n.peers[to]
	switch {
	case p == nil:
		n.site.Emit(election.Event{Kind: election.DialFailed, Peer: to})
	case p.up:
		n.site.linkUp(p)
	case p.opening:
	case n.site.follows(p):
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
	n.site.digest = cmp.Or(m.Digest, n.site.digest)
	switch m.Kind {
	case election.Beat, election.Ack, election.Ping, election.Pong:
		n.routine(p, m)
	case election.Election:
		if p.kind == legacy && n.site.View().Defined() {
			n.identify(p, nil) // an election would make it leave its boss
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

// routine sends regular messages.
func (n *connections) routine(p *peer, m *election.Message) {
	switch {
	case p.kind == legacy:
		n.site.answerFor(p, m)
	case p.persistent != nil:
		p.persistent.send(n.self.heartbeat(m))
	case m.Kind == election.Beat && time.Since(p.told) > n.site.Timing.T()/2:
		p.told = time.Now() // it follows a different leader, or has yet to come
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
		p.persistent.send(n.self.bytes(&frame{Type: typeBatuta, Batuta: n.self.envelope(m)}))
	default:
		n.identify(p, m)
	}
}

// tickAll calls tick in a turn of the node at every heartbeat.
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

// tick does what is due.
func (n *connections) tick() {
	now := time.Now()
	for _, p := range n.peers.sorted() {
		if p.kind == legacy && p.persistent != nil {
			n.keep(p, now)
		}
		if p.kind == legacy {
			n.lead(p, now)
		}
		if l := p.persistent; l != nil && l.dialed && n.site.View().Defined() && !n.site.follows(p) && now.Sub(l.began) > n.site.Timing.T() {
			p.endPersistent() // it was not the boss after all
		}
		if n.site.follows(p) && p.up && p.persistent == nil && !now.Before(p.retry) {
			n.openPersistent(p)
		}
	}
}

// Shut implements network.Network. Incoming events meanwhile are dropped.
func (n *connections) Shut(wait time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.shut(wait)
	}()
	n.Discard(done)
}

// shut lets the exchanges end before the persistent connections. A foreign member that reads its
// boss's question only after it has lost that boss takes it for the boss again.
func (n *connections) shut(wait time.Duration) {
	n.listener.Close()
	await(&n.out, wait)
	var ending sync.WaitGroup
	for _, p := range n.peers {
		if l := p.persistent; l != nil {
			l.finish()
			ending.Go(func() { <-l.done })
		}
	}
	await(&ending, wait)
	n.cancel()
	for _, p := range n.peers {
		p.endPersistent()
	}
	n.live.Wait()
}

// await waits for those, but no longer than most.
func await(those *sync.WaitGroup, most time.Duration) {
	done := make(chan struct{})
	go func() { those.Wait(); close(done) }()
	over := time.NewTimer(most)
	defer over.Stop()
	select {
	case <-done:
	case <-over.C:
	}
}
