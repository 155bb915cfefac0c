package superpeer

// Places are found by an auction (Bertsekas, Annals of Operations Research 14,
// 1988). Each node goes where the round trip and the price of a place are least
// in sum, and offers there what its next best choice would cost it more. A super
// peer has no price while it has room; then the price is the lowest offer of
// those it serves, and a better offer takes that one's place. So a place goes to
// whom it spares most, without anybody knowing all.

// A node that is served looks for a nearer super peer after at most calmGap
// rounds when something has changed, and ever more seldom, up to maxLookGap, while
// nothing does.
const (
	calmGap    = 6
	maxLookGap = 32
)

// switchGain is how much nearer a super peer must be for a served node to
// change: less is not worth three messages. ousterGain is that where the place
// must be taken from another, who will have to take somebody else's. Config.Margin comes on top.
const (
	switchGain = 0.01
	ousterGain = 0.1
)

// better tells whether k is enough better than the place that the node has.
func (c *client) better(k *contact, margin float32) bool {
	gain := float32(switchGain)
	if k.price > 0 {
		gain = ousterGain
	}
	return c.homeRTT >= 0 && k.cost() < c.homeRTT*(1-gain)-margin
}

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
		if c.home == None || c.better(k, n.cfg.margin()) {
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
