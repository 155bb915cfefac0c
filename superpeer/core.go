package superpeer

import (
	"maps"
	"slices"
	"sync/atomic"
	"time"

	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/hashicorp/memberlist"
)

// core is the [membership] for large overlays. Super peers list each other in a memberlist of their
// own, the core, which has the ring, the registrars and gossip. Every other node has a memberlist
// without peers, for its transport and encryption. It knows its home, which sends n and some super
// peers with each renewal, and nodes named in messages.
//
// A node enters the core when a token is granted or offered to it, before it handles that message;
// it leaves some time after it has lost its token.
type core struct {
	d *driver
	m *Member

	list     *memberlist.Memberlist // nil: not in the core
	entering bool
	entries  int             // into the core so far; only for the goroutine that enters
	held     []rules.Message // grants and offers that wait until we are in it
	needed   rules.Round     // when it last had to be in the core

	gauge    gauge
	told     int                        // number of nodes, as reported to us
	toldAt   rules.Round                // when that was
	live     int                        // number of super peers, as reported to us
	unserved map[rules.Peer]rules.Round // nodes that asked for a place and have none
	notices  []notice                   // of this round; outside the core, of up to askEvery rounds ago
	turn     uint64

	asking   atomic.Bool // a node is being asked
	merging  atomic.Bool // likewise
	asks     string      // the node that is being asked
	superAt  rules.Round // when a live super peer last sent or was mentioned
	askedAt  rules.Round // when a node last asked us for its list
	patience rules.Round // rounds without super peers before this node creates a core
}

// Parameters of a node with a core, in rounds except where noted.
const (
	stayInCore  = 12 // without a token
	askEvery    = 3  // while no super peer serves it
	foundAfter  = 10 // without super peers, plus a random number of up to twice as many
	foundAlone  = 60 // additional if no node asks it
	askedLately = 9
	waitingFor  = 3 // for which a node that asked for a place counts as waiting
	sweepEvery  = 8
	maxHeld     = 8  // grants and offers
	maxDoors    = 4  // addresses through which to try to enter the core
	clientBook  = 32 // super peers that a client lists
	nearOnes    = 16 // nearest super peers, of which each answer passes one on
	unlikely    = 16 // times the mean load, which no super peer has
	leastWait   = 64 // nodes that may always be waiting
)

func newCore(d *driver) *core {
	c := &core{d: d, m: d.m, unserved: map[rules.Peer]rules.Round{}}
	c.askedAt, c.patience = -askedLately, foundAfter+rules.Round(d.draw.Next()%(2*foundAfter))
	return c
}

// ring implements [membership]: it is the core's ring, and empty outside.
func (c *core) ring(since uint64) ([]rules.Place, uint64) {
	if c.list == nil {
		if since == 0 {
			return nil, 0
		}
		return []rules.Place{}, 0
	}
	return c.m.peers.places(since)
}

func (c *core) nodes() int {
	if c.list != nil {
		return c.gauge.n
	}
	return c.told
}

func (c *core) supers(self bool) int {
	if c.list == nil {
		return c.live
	}
	return c.m.book.supers(c.d.self, self)
}

// failed implements [membership]: no message informs a node outside the core that a super peer is
// gone.
func (c *core) failed(k *known) {
	if c.list == nil {
		c.m.book.forget(uid(k.Key))
	}
}

func (c *core) round(now rules.Round) {
	d := c.d
	if c.list != nil || now%askEvery == 0 {
		c.notices = c.m.book.snapshot()
	}
	if now%sweepEvery == 0 {
		c.sweep(now)
	}
	maps.DeleteFunc(c.unserved, func(_ rules.Peer, at rules.Round) bool { return now-at > waitingFor })
	_, _, holding := d.node.Holding()
	if holding {
		c.needed = now
	}
	if c.list == nil {
		c.outside(now)
		return
	}
	c.superAt = now
	c.gauge.take(c.sum(), int(2*c.m.book.gap(d.cfg.Count(d.size)))+6)
	if now-c.needed > stayInCore && c.m.peers.listing() > 1 {
		c.leave()
		return
	}
	c.inside(now)
}

// sweep removes nodes that have not been mentioned recently, except those that the Node may use.
func (c *core) sweep(now rules.Round) {
	pinned := map[uid]bool{uid(c.d.homeKey()): true}
	for _, l := range c.d.node.Serving() {
		pinned[c.m.peers.uidOf(l.Peer)] = true
	}
	for i := range c.notices {
		pinned[c.notices[i].holder] = true
	}
	c.m.peers.sweep(now, pinned)
}

// sum adds up the loads that super peers report. A single report cannot inflate it: loads that no
// super peer can have are capped, and so is the number of waiting nodes, by that of served nodes.
func (c *core) sum() int {
	most := int32(unlikely/c.d.cfg.Fraction) + leastWait
	sum, wait := 0, len(c.unserved)
	if _, _, holding := c.d.node.Holding(); holding {
		sum = 1 + len(c.d.node.Serving())
	}
	for i := range c.notices {
		if n := &c.notices[i]; n.holder != c.d.self {
			sum += 1 + int(min(n.load, most))
			wait = max(wait, int(n.waits))
		}
	}
	return max(sum+min(wait, max(sum, leastWait)), c.m.peers.listing())
}

// hold implements [membership]: a node outside the core cannot receive a token.
func (c *core) hold(m *rules.Message) bool {
	switch m.Kind {
	case rules.Grant, rules.Offer:
		c.needed = c.d.round
		if c.list != nil {
			return false
		}
		if len(c.held) < maxHeld {
			c.held = append(c.held, *m)
		}
		c.enter(c.doors(m.From), false)
		return true
	case rules.Attach:
		if m.Peer == rules.None {
			c.unserved[m.From] = c.d.round
		}
	}
	return false
}

// doors returns addresses of nodes that should know the core: our home and super peers that we
// know. Only without any of these it uses from.
func (c *core) doors(from rules.Peer) (list []string) {
	add := func(k *known, ok bool) {
		if ok && len(list) < maxDoors && !slices.Contains(list, k.Address) {
			list = append(list, k.Address)
		}
	}
	add(c.m.peers.at(c.d.node.Home()))
	known := c.m.book.snapshot()
	for range maxDoors {
		if len(known) > 0 {
			add(c.m.peers.of(known[c.d.draw.Next()%uint64(len(known))].holder))
		}
	}
	if len(list) == 0 {
		add(c.m.peers.at(from))
	}
	return list
}

// outsider reports whether this node has no list of the super peers.
func (c *core) outsider() bool { return c != nil && c.list == nil }

// enter joins the core through one of doors; with found it creates a core.
func (c *core) enter(doors []string, found bool) {
	if c.entering || len(doors) == 0 && !found {
		return
	}
	c.entering = true
	c.m.peers.unlistAll(c.d.round)
	go func() {
		list, err := c.m.openCore(doors)
		done := func() {
			c.entering = false
			held := c.held
			c.held = nil
			if err != nil {
				c.m.peers.unlistAll(c.d.round)
				c.m.cfg.Logger.Debug("the super peers cannot be joined", "error", err)
				return
			}
			c.entered(list)
			for i := range held {
				c.d.consider(&held[i])
			}
		}
		select {
		case c.d.calls <- done:
		case <-c.m.done:
			if err == nil {
				_ = list.Shutdown() // we are closed too
			}
		}
	}()
}

func (c *core) entered(list *memberlist.Memberlist) {
	c.list, c.needed = list, c.d.round
	c.gauge = gauge{n: max(1, min(c.told, c.m.peers.listing()*int(unlikely/c.d.cfg.Fraction)))} // our home may have lied
	c.m.book.bound(maxHeard)
	c.d.meet()
	c.d.publish()
}

// leave announces to the core that this node is ordinary again.
func (c *core) leave() {
	list := c.list
	c.told, c.list = c.gauge.n, nil
	c.m.book.bound(clientBook)
	c.m.peers.unlistAll(c.d.round)
	c.d.meet()
	round := c.m.cfg.Round
	go func() {
		_ = list.Leave(round) // without it the node counts as dead a little later
		_ = list.Shutdown()
	}()
}

// outside does a round's work on a node outside the core.
func (c *core) outside(now rules.Round) {
	d := c.d
	if k := c.superPeer(); k != nil {
		d.watch(k)
	}
	if d.node.Home() != rules.None {
		return
	}
	if now%askEvery == 0 {
		c.ask(c.contact())
	}
	lone, first := now-c.superAt, len(c.m.others()) == 0
	waited := lone >= c.patience && (first || now-c.askedAt < askedLately)
	if first && c.told == 0 || waited || lone >= foundAlone+c.patience {
		c.superAt = now
		c.enter(nil, true)
	}
}

// inside does a round's work on a node in the core. A partition may have ended, so the parts of an
// overlay compare what they have learned from messages and from nodes to join through.
func (c *core) inside(now rules.Round) {
	d := c.d
	if now%rejoinEvery != 0 {
		return
	}
	size := c.m.peers.listing()
	luck := d.draw.Unit()
	addr, share := c.m.peers.retry(d.draw.Next())
	switch lost := now/rejoinEvery%2 == 0 && addr != ""; {
	case lost && luck < max(share, 2/float64(size)):
		c.ask(addr)
	case lost: // lost nodes may be dead: live nodes are asked in turn
	case luck < 0.5/float64(size): // seldom: where a partition cuts it off, no node is asked meanwhile
		c.ask(c.m.entrance(d.draw.Next()))
	case luck < 2.5/float64(size):
		c.ask(c.acquaintance())
	}
	if now >= d.compare {
		d.compare = now + d.gap(size)
		c.merge(c.m.peers.member(d.draw.Next()))
	}
}

// contact returns a node to ask when there are no super peers, in turn: an address to join by, a
// super peer that we know, any node that we know.
func (c *core) contact() string {
	for range 3 {
		addr := ""
		switch c.turn++; c.turn % 3 {
		case 0:
			addr = c.m.entrance(c.d.draw.Next())
		case 1:
			if k := c.superPeer(); k != nil {
				addr = k.Address
			}
		default:
			addr = c.acquaintance()
		}
		if addr != "" {
			return addr
		}
	}
	return ""
}

// superPeer returns a super peer that we know; nil: there is none.
func (c *core) superPeer() *known {
	if len(c.notices) == 0 {
		return nil
	}
	k, _ := c.m.peers.of(c.notices[c.d.draw.Next()%uint64(len(c.notices))].holder)
	return k
}

// acquaintance returns the address of any node that we know, if there is one.
func (c *core) acquaintance() string {
	if k := c.m.peers.some(c.d.draw.Next(), false); k != nil {
		return k.Address
	}
	return ""
}

// ask exchanges lists with the node at addr; read handles the answer.
func (c *core) ask(addr string) {
	if c.m.compare(addr, c.m.list, &c.asking) {
		c.asks = addr
	}
}

// merge joins our core with that of the node at addr.
func (c *core) merge(addr string) { c.m.compare(addr, c.list, &c.merging) }

// compare exchanges lists with the node at addr, unless busy or without list or addr.
func (m *Member) compare(addr string, list *memberlist.Memberlist, busy *atomic.Bool) bool {
	if addr == "" || addr == m.Address() || list == nil || !busy.CompareAndSwap(false, true) {
		return false
	}
	go func() {
		_, _ = list.Join([]string{addr}) // no answer: it is gone
		busy.Store(false)
	}()
	return true
}

// part announces our departure to nodes that no memberlist informs.
func (c *core) part() {
	d := c.d
	for _, l := range d.node.Serving() {
		d.send(&rules.Message{Kind: rules.Gone, To: l.Peer, Peer: rules.None})
	}
	if home := d.node.Home(); home != rules.None {
		d.send(&rules.Message{Kind: rules.Detach, To: home, Peer: rules.None})
	}
	if c.list != nil {
		_ = c.list.Leave(min(2*c.m.cfg.Round, time.Second)) // without it the node counts as dead a little later
	}
}

// picker is the core's ring. It also chooses a node for a token without a holder: a client of this
// node, else any known node.
type picker struct {
	*router
	c *core
}

func (p *picker) Pick(draw uint64) (rules.Peer, bool) {
	if leases := p.c.d.node.Serving(); len(leases) > 0 {
		return leases[draw%uint64(len(leases))].Peer, true
	}
	if k := p.c.m.peers.some(draw, false); k != nil && draw%4 != 0 {
		return k.peer, true
	}
	return p.Owner(draw)
}

// Messages between the members of a core and their clients, besides the Node's messages.

// adorn adds to our message what its receiver may not know.
func (c *core) adorn(w *message) {
	switch w.Kind {
	case rules.Renew, rules.Kept:
		return
	case rules.Accept:
		w.Size, w.Live = c.d.size, len(c.notices)
		w.Told = c.passOn(w)
	}
	w.Nodes = c.m.peers.introductions(w, w.Kind != rules.Accept)
}

// passOn returns announcements for a client, sent with the answer to its renewal: a super peer near
// it, each of the nearest in turn, and a random super peer.
func (c *core) passOn(w *message) (told [][]byte) {
	leases := c.d.node.Serving()
	n := len(c.notices)
	if n == 0 || int(w.Slot) >= len(leases) {
		return nil
	}
	at := leases[w.Slot].At
	near := nearOf(c.notices, &at, &c.d.cfg.Metric)
	k := near[(int(c.d.round)+int(w.Slot))%len(near)]
	told = append(told, c.notices[k].encode())
	if other := int(c.d.draw.Next() % uint64(n)); other != k {
		told = append(told, c.notices[other].encode())
	}
	return told
}

// nearOf returns the indices of the nearOnes notices nearest to at, the nearest first.
func nearOf(list []notice, at *rules.Position, metric *rules.Metric) []int {
	var places [nearOnes]int
	var ways [nearOnes]float32
	most := min(nearOnes, len(list))
	for i := range list {
		ms := metric.Estimate(at, &list[i].At)
		if i >= most && ms >= ways[most-1] {
			continue
		}
		j := min(i, most-1)
		for ; j > 0 && ways[j-1] > ms; j-- {
			places[j], ways[j] = places[j-1], ways[j-1]
		}
		places[j], ways[j] = i, ms
	}
	return places[:most]
}

// know returns the answer to a node that asks for our list. It is not called by the driver.
func (m *Member) know() []byte {
	v := m.view.Load()
	if v == nil {
		v = &view{}
	}
	w := message{Kind: kindKnow, From: m.peers.self, Size: v.nodes, Live: v.live, Core: v.core}
	list := m.book.snapshot()
	first := int(m.asked.Add(clientBook)) - clientBook
	for i := range min(len(list), clientBook) {
		w.Told = append(w.Told, list[(first+i)%len(list)].encode())
	}
	w.Nodes = m.peers.introductions(&w, true)
	body, err := encoder.Marshal(&w)
	if err != nil {
		return nil
	}
	return append([]byte{tagMessage}, body...)
}

// read handles the parts of a message for the core.
func (c *core) read(w *message) {
	now, home := c.d.round, uint64(w.From) == c.d.homeKey()
	switch w.Kind {
	case rules.Accept, rules.Full, rules.Redirect, rules.Moved:
		c.superAt = now
	case kindKnow:
		if k, ok := c.m.peers.of(w.From); !ok || k.Address != c.asks {
			c.askedAt = now // it asks us
		}
		if w.Core {
			c.superAt = now
		}
	}
	if c.list == nil && w.Size > 0 && (w.Kind == rules.Accept && home || w.Kind == kindKnow && c.told == 0) {
		c.believe(min(w.Size, maxNodes), now)
		c.live = min(w.Live, maxNodes)
	}
	if w.Kind != kindKnow && !(w.Kind == rules.Accept && home) {
		return
	}
	for _, raw := range w.Told[:min(len(w.Told), clientBook)] {
		u := holderOf(raw)
		if k, ok := c.m.peers.of(u); ok && c.list != nil && !k.listed && u != c.d.self {
			c.merge(k.Address)
		}
		if len(raw) > 1 && raw[0] == tagAnnounce {
			c.d.announced(raw)
		}
	}
}

// believe accepts a reported number of nodes. A home may be malicious, and soon replaced: after the
// first report the number at most doubles per round.
func (c *core) believe(n int, now rules.Round) {
	if c.told > 0 && n > c.told {
		if now == c.toldAt {
			return
		}
		n = min(n, 2*c.told)
	}
	c.told, c.toldAt, c.d.size = n, now, n
}

// maxNodes bounds the reported number of nodes.
const maxNodes = 10_000_000
