package superpeer

import (
	"cmp"
	"slices"
)

// Places are found by an auction (Bertsekas, Annals of Operations Research 14,
// 1988). Each node goes where the round trip and the price of a place are least
// in sum, and offers there what its next best choice would cost it more. A super
// peer has no price while it has room; then the price is the lowest offer of
// those it serves, and a better offer takes that one's place. So a place goes to
// whom it spares most, without anybody knowing all.

// maxContacts is how many super peers a node remembers, the least costly first;
// the second is its deputy, to which it turns at once when its own fails.
const maxContacts = 8

// maxProbes is how many unknown super peers a node measures at a time.
const maxProbes = 4

// A node that is served looks for a nearer super peer after at most calmGap
// rounds when something has changed, and ever more seldom, up to maxLookGap, while
// nothing does.
const (
	calmGap    = 6
	maxLookGap = 32
)

// switchGain is how much nearer a super peer must be for a served node to
// change: less is not worth three messages. Where the place must be taken from another it is more, since that one will have
// to take somebody else's.
const (
	switchGain = 0.01
	ousterGain = 0.1
)

// better tells whether k is enough better than the place that the node has.
func (c *client) better(k *contact) bool {
	gain := float32(switchGain)
	if k.price > 0 {
		gain = ousterGain
	}
	return c.homeRTT >= 0 && k.cost() < c.homeRTT*(1-gain)
}

// contact is a super peer that the node has measured.
type contact struct {
	peer  Peer
	token int32
	rtt   float32 // milliseconds; negative: not measured
	price float32 // milliseconds that a place there costs whom it must be taken from
}

// cost is what a place at k costs all together, in milliseconds.
func (k *contact) cost() float32 { return k.rtt + k.price }

// client is a node's search for its super peer, and its lease there.
type client struct {
	home        Peer
	homeToken   int32
	homeVersion uint32
	homeRTT     float32
	slot        int32 // where the home keeps its lease
	renewAt     Round
	lookAt      Round
	lookedAt    Round
	tryUntil    Round
	trying      Peer // asked for a place, not answered yet
	lookGap     int16
	skip        int16 // prefix methods: how many ranges on
	known       uint8 // of contacts
	waiting     uint8 // of asked: not answered yet
	spurned     uint8 // refusals, evictions and wrong ways since it was last served
	awaiting    bool  // a renewal is not answered yet
	contacts    [maxContacts]contact
	asked       [maxProbes]contact
}

func newClient() client {
	return client{home: None, trying: None, lookGap: 1, lookedAt: -1, renewAt: never}
}

func (c *client) deadline() Round {
	d := min(c.lookAt, c.renewAt)
	if c.trying != None {
		d = min(d, c.tryUntil)
	}
	return d
}

func (n *Node) wakeClient(now Round, out *Actions) {
	c := &n.client
	if c.trying != None && now >= c.tryUntil {
		n.forget(c.trying)
		c.trying = None
		n.choose(now, out)
	}
	if c.home != None && now >= c.renewAt {
		if c.awaiting {
			n.orphaned(now, c.home, out)
		} else {
			c.awaiting, c.renewAt = true, now+1
			out.send(n.request(Renew, c.home, c.homeRTT))
		}
	}
	if now >= c.lookAt {
		n.look(now, out)
	}
}

// look asks gossip for super peers. While nothing changes it looks ever more
// seldom.
func (n *Node) look(now Round, out *Actions) {
	c := &n.client
	c.lookGap = min(2*c.lookGap, maxLookGap)
	c.lookedAt = now
	c.lookAt = now + 1 + Round(n.rng.below(int(c.lookGap)))
	if n.cfg.Method.ranged() {
		c.skip = 0
		n.seekRange(now, out)
		return
	}
	q := Query{Near: maxProbes, At: n.at, Seed: n.rng.next()}
	if !n.cfg.Metric.Exact {
		q.Near, q.Sample = 16, 2
	}
	if n.cfg.Capacity > 0 {
		q.Spare = maxProbes
	}
	out.Look = q
}

// lookSoon is for a node that is not served, lookAgain for one whose super peer
// has changed.
func (n *Node) lookSoon(now Round) {
	n.client.lookGap = 1
	n.client.lookAt = min(n.client.lookAt, now+1)
}

func (n *Node) lookAgain(now Round) {
	n.client.lookGap = min(n.client.lookGap, calmGap)
	n.client.lookAt = min(n.client.lookAt, now+1+Round(n.rng.below(calmGap)))
}

// orphaned leaves a home that is no more and turns to the deputy.
func (n *Node) orphaned(now Round, home Peer, out *Actions) {
	n.forget(home)
	c := &n.client
	if c.home == home {
		c.home, c.awaiting, c.renewAt = None, false, never
	}
	n.lookSoon(now)
	n.choose(now, out)
}

// learn takes in what gossip says: a token that has moved leaves its old
// contact; of the unknown ones a few are measured.
func (n *Node) learn(now Round, list []Announcement, out *Actions) {
	if n.client.waiting > 0 {
		return
	}
	var room [24]Announcement
	fresh := room[:0]
	for i := range list {
		if a := &list[i]; a.Holder != n.self && !n.update(a) && len(fresh) < len(room) {
			fresh = append(fresh, *a)
		}
	}
	if !n.cfg.Metric.Exact {
		// Positions mislead: any of the near ones may be the nearest.
		for i := range fresh {
			j := i + n.rng.below(len(fresh)-i)
			fresh[i], fresh[j] = fresh[j], fresh[i]
		}
	}
	if n.client.home == None && n.cfg.Capacity > 0 {
		// A place anywhere first; the nearest later.
		slices.SortStableFunc(fresh, func(a, b Announcement) int { return cmp.Compare(min(b.Spare, 1), min(a.Spare, 1)) })
	}
	for i := range fresh {
		if !n.measure(fresh[i].Holder, fresh[i].Token, fresh[i].Price, out) {
			return
		}
	}
}

// update applies a to the contact it is about and tells whether there was one
// that still holds.
func (n *Node) update(a *Announcement) bool {
	c := &n.client
	for i := range c.contacts[:c.known] {
		k := &c.contacts[i]
		if k.peer == a.Holder {
			k.token = a.Token
			if k.price != a.Price {
				moved := *k
				if moved.price = a.Price; a.Price > 0 && a.Price < k.price {
					moved.price = (a.Price + k.price) / 2 // gossip is late: a fall is believed by halves
				}
				n.note(moved)
			}
			return true
		}
		if k.token == a.Token && k.peer != c.home {
			n.forget(k.peer)
			return false
		}
	}
	return false
}

// measure probes peer unless enough are being probed already.
func (n *Node) measure(peer Peer, token int32, price float32, out *Actions) bool {
	c := &n.client
	for i := range c.asked[:c.waiting] {
		if c.asked[i].peer == peer {
			return true
		}
	}
	if int(c.waiting) == maxProbes {
		return false
	}
	c.asked[c.waiting] = contact{peer: peer, token: token, price: price}
	c.waiting++
	out.Probe = append(out.Probe, peer)
	return true
}

// contactProbed notes a round trip that measure asked for and tells whether it
// was one.
func (n *Node) contactProbed(peer Peer, rtt float32, ok bool) bool {
	c := &n.client
	for i := range c.asked[:c.waiting] {
		if c.asked[i].peer != peer {
			continue
		}
		k := c.asked[i]
		c.waiting--
		c.asked[i] = c.asked[c.waiting]
		if ok {
			k.rtt = rtt
			n.note(k)
			if peer == c.home {
				c.homeRTT = rtt
			}
		} else {
			n.forget(peer)
		}
		return true
	}
	return false
}

// note keeps k among the contacts if it is near enough, in order of cost.
func (n *Node) note(k contact) {
	c := &n.client
	n.forget(k.peer)
	i := int(c.known)
	for i > 0 && c.contacts[i-1].cost() > k.cost() {
		i--
	}
	if i == maxContacts {
		return
	}
	if c.known < maxContacts {
		c.known++
	}
	copy(c.contacts[i+1:c.known], c.contacts[i:])
	c.contacts[i] = k
}

func (n *Node) forget(peer Peer) {
	c := &n.client
	for i := range c.contacts[:c.known] {
		if c.contacts[i].peer == peer {
			copy(c.contacts[i:], c.contacts[i+1:c.known])
			c.known--
			return
		}
	}
}

func (n *Node) contactOf(peer Peer) *contact {
	c := &n.client
	for i := range c.contacts[:c.known] {
		if c.contacts[i].peer == peer {
			return &c.contacts[i]
		}
	}
	return nil
}

// alternative is the least that a place elsewhere than at but would cost, in
// milliseconds, or -1 when the node knows no other.
func (n *Node) alternative(but Peer) float32 {
	c := &n.client
	least := float32(-1)
	if c.home != None && c.home != but && c.homeRTT >= 0 {
		least = c.homeRTT // it has that place already
	}
	for i := range c.contacts[:c.known] {
		if k := &c.contacts[i]; k.peer != but && k.peer != c.home && (least < 0 || k.cost() < least) {
			least = k.cost()
		}
	}
	return least
}

// choose asks the least costly super peer known for a place if it is worth it.
func (n *Node) choose(now Round, out *Actions) {
	if n.cfg.Method.ranged() {
		n.seekRange(now, out)
		return
	}
	c := &n.client
	if c.trying != None {
		return
	}
	// Who is not served takes a place that is free, and bids from there.
	roomy := c.home == None && n.knowsRoom()
	if c.home == None && !roomy && n.cfg.Capacity > 0 && c.lookedAt != now {
		n.look(now, out) // gossip knows where there is room
		return
	}
	for i := range c.contacts[:c.known] {
		k := &c.contacts[i]
		if k.peer == c.home || k.peer == n.self || roomy && k.price > 0 {
			continue
		}
		if c.home == None || c.better(k) {
			n.attachTo(now, *k, out)
		}
		break
	}
	if c.home == None && c.trying == None {
		n.lookSoon(now)
	}
}

// maxSpurned is how often a node without super peer follows those who name
// another.
const maxSpurned = 3

func (n *Node) knowsRoom() bool {
	for i := range n.client.contacts[:n.client.known] {
		if n.client.contacts[i].price == 0 {
			return true
		}
	}
	return false
}

func (n *Node) attachTo(now Round, k contact, out *Actions) {
	n.client.trying, n.client.tryUntil = k.peer, now+1
	out.send(n.request(Attach, k.peer, k.rtt))
}

func (n *Node) request(kind Kind, to Peer, rtt float32) Message {
	return Message{
		Kind: kind, From: n.self, To: to, Slot: n.client.slot, Peer: n.client.home,
		RTT: rtt, Alt: n.alternative(to), At: n.at, Key: n.key,
	}
}

func (n *Node) accepted(now Round, m *Message, out *Actions) {
	c := &n.client
	if m.From == c.home { // a renewal
		c.awaiting, c.slot, c.homeVersion, c.spurned = false, m.Slot, m.Version, 0
		c.renewAt = now + n.cfg.Renew
		return
	}
	if m.From != c.trying || n.hold != nil {
		// Too late: it is served elsewhere or a super peer itself.
		out.send(Message{Kind: Detach, From: n.self, To: m.From})
		return
	}
	if c.home != None {
		out.send(Message{Kind: Detach, From: n.self, To: c.home, Slot: c.slot})
	}
	c.trying, c.awaiting, c.spurned = None, false, 0
	c.home, c.homeToken, c.homeVersion, c.slot = m.From, m.Token, m.Version, m.Slot
	c.homeRTT = -1
	if k := n.contactOf(m.From); k != nil {
		c.homeRTT = k.rtt
	}
	// The first renewal comes early, to spread the renewals over the rounds.
	c.renewAt = now + 1 + Round(n.rng.below(int(n.cfg.Renew)))
	n.lookAgain(now)
}

func (n *Node) full(now Round, m *Message, out *Actions) {
	c := &n.client
	if m.From != c.trying {
		return
	}
	c.trying = None
	if n.cfg.Method.ranged() {
		c.skip++
		n.seekRange(now, out)
		return
	}
	c.spurned = min(c.spurned+1, maxSpurned)
	n.reprice(m.From, m.Alt)
	for _, r := range m.Others {
		if r.Peer != n.self && n.contactOf(r.Peer) == nil {
			n.measure(r.Peer, r.Token, 0, out)
		}
	}
	if c.waiting == 0 {
		n.choose(now, out)
	}
}

// reprice notes what a place at peer costs now.
func (n *Node) reprice(peer Peer, price float32) {
	if k := n.contactOf(peer); k != nil {
		moved := *k
		moved.price = price
		n.note(moved)
	}
}

// gone: the peer is no super peer. Its successor, if named, is measured anew.
func (n *Node) gone(now Round, m *Message, out *Actions) {
	c := &n.client
	if m.From == c.trying {
		c.trying = None
	}
	// Two who both believe that the other holds the token must not keep this
	// node going back and forth.
	c.spurned = min(c.spurned+1, maxSpurned)
	if m.Peer != None && m.Peer != n.self && c.spurned < maxSpurned {
		n.measure(m.Peer, m.Token, 0, out)
	}
	if m.From == c.home && n.hold == nil {
		n.orphaned(now, m.From, out)
		return
	}
	n.forget(m.From)
	if n.hold == nil {
		n.choose(now, out)
	}
}

// redirected: another has taken the place, at a price that this node would not
// pay. It goes where it would have gone then.
func (n *Node) redirected(now Round, m *Message, out *Actions) {
	c := &n.client
	if m.From != c.home || n.hold != nil {
		return
	}
	c.home, c.awaiting, c.renewAt = None, false, never
	if n.cfg.Method.ranged() {
		c.skip++
	}
	c.spurned = min(c.spurned+1, maxSpurned)
	n.reprice(m.From, m.Alt)
	n.lookSoon(now)
	n.choose(now, out)
}

// moved: the token that served this node has another holder, which has taken
// over its lease. A version that is not newer is late.
func (n *Node) moved(now Round, m *Message, out *Actions) {
	c := &n.client
	if n.hold != nil || c.home == None || m.Token != c.homeToken || m.Version <= c.homeVersion {
		if c.home != m.From {
			out.send(Message{Kind: Detach, From: n.self, To: m.From})
		}
		return
	}
	n.forget(c.home)
	c.home, c.homeVersion, c.slot, c.homeRTT = m.From, m.Version, m.Slot, m.RTT
	c.awaiting, c.renewAt = false, now+1+Round(n.rng.below(int(n.cfg.Renew)))
	n.lookAgain(now)
	if m.RTT < 0 {
		n.measure(m.From, m.Token, 0, out)
		return
	}
	n.note(contact{peer: m.From, token: m.Token, rtt: m.RTT})
	n.choose(now, out)
}

func (n *Node) recommended(now Round, m *Message, out *Actions) {
	if n.hold != nil || m.Peer == n.self {
		return
	}
	n.note(contact{peer: m.Peer, token: m.Token, rtt: m.RTT})
	n.choose(now, out)
}
