package superpeer

import "slices"

// Places are assigned by an auction (Bertsekas, Annals of Operations Research 14, 1988). Each node
// chooses the place with the least sum of round trip and price, and offers there what its next best
// choice would cost in addition. A super peer has no price while it has room. Then the price is the
// lowest offer of its clients, and a better offer takes that client's place. So a place goes to the
// node that it saves most, without global knowledge.

// A served node looks for a nearer super peer after at most calmGap rounds when something has
// changed, and less and less often, up to maxLookGap, while nothing changes.
const (
	calmGap    = 6
	maxLookGap = 32
)

// switchGain is how much nearer a super peer must be for a served node to change: less is not worth
// three messages. ousterGain is that for a place that is taken from a client, which then may have
// to take a place too. Config.Margin is added.
const (
	switchGain = 0.01
	ousterGain = 0.1
)

// better reports whether k is enough better than the node's present place.
func (c *client) better(k *contact, margin float32) bool {
	gain := float32(switchGain)
	if k.price > 0 {
		gain = ousterGain
	}
	return c.homeRTT >= 0 && k.cost() < c.homeRTT*(1-gain)-margin
}

// client is a node's search for its super peer, and its lease there. On a super peer it has no home
// and asks for no place, but measures super peers. It cannot access the node's token.
type client struct {
	home        Peer
	homeToken   int32
	homeVersion uint32
	homeRTT     float32
	slot        int32 // index of its lease at the home
	renewAt     Round
	lookAt      Round
	lookedAt    Round
	tryUntil    Round
	trying      Peer // asked for a place, no answer yet
	lookGap     int16
	skip        int16 // prefix methods: ranges to skip
	known       uint8 // of contacts
	waiting     uint8 // of asked: no answer yet
	spurned     uint8 // refusals, evictions and wrong referrals since it was last served
	awaiting    bool  // a renewal has no answer yet
	contacts    [maxContacts]contact
	asked       [maxProbes]contact
}

func (c *client) deadline() Round {
	d := min(c.lookAt, c.renewAt)
	if c.trying != None {
		d = min(d, c.tryUntil)
	}
	return d
}

func (c *client) wake(s *self, now Round, out *Actions) {
	if c.trying != None && now >= c.tryUntil {
		c.forget(c.trying)
		c.trying = None
		c.choose(s, now, out)
	}
	if c.home != None && now >= c.renewAt {
		if c.awaiting {
			c.orphaned(s, now, c.home, out)
		} else {
			c.awaiting, c.renewAt = true, now+1
			out.send(c.request(s, Renew, c.home, c.homeRTT))
		}
	}
	if now >= c.lookAt {
		c.look(s, now, out)
	}
}

// look asks gossip for super peers. While nothing changes it looks less and less often.
func (c *client) look(s *self, now Round, out *Actions) {
	c.lookGap = min(2*c.lookGap, maxLookGap)
	c.lookedAt = now
	c.lookAt = now + 1 + Round(s.rng.Below(int(c.lookGap)))
	if s.cfg.Method.ranged() {
		c.skip = 0
		c.seekRange(s, now, out)
		return
	}
	q := Query{Near: maxProbes, At: s.at, Seed: s.rng.Next()}
	if !s.cfg.Metric.Exact {
		q.Near, q.Sample = 16, 2
	}
	if s.cfg.Capacity > 0 {
		q.Spare = maxProbes
	}
	out.Look = q
}

// lookSoon is for a node without a super peer, lookAgain for a node with a new super peer.
func (c *client) lookSoon(now Round) {
	c.lookGap = 1
	c.lookAt = min(c.lookAt, now+1)
}

func (c *client) lookAgain(s *self, now Round) {
	c.lookGap = min(c.lookGap, calmGap)
	c.lookAt = min(c.lookAt, now+1+Round(s.rng.Below(calmGap)))
}

// orphaned leaves a home that has ended and turns to the deputy.
func (c *client) orphaned(s *self, now Round, home Peer, out *Actions) {
	c.forget(home)
	if c.home == home {
		c.home, c.awaiting, c.renewAt = None, false, never
	}
	c.lookSoon(now)
	c.choose(s, now, out)
}

// alternative returns the least cost of a place except at but, in milliseconds, or -1 if the node
// knows none.
func (c *client) alternative(but Peer) float32 {
	least := float32(-1)
	if c.home != None && c.home != but && c.homeRTT >= 0 {
		least = c.homeRTT // it has that place already
	}
	for i := range c.measured() {
		if k := &c.contacts[i]; k.peer != but && k.peer != c.home && (least < 0 || k.cost() < least) {
			least = k.cost()
		}
	}
	return least
}

// choose asks the least costly known super peer for a place if that is worth it.
func (c *client) choose(s *self, now Round, out *Actions) {
	if s.cfg.Method.ranged() {
		c.seekRange(s, now, out)
		return
	}
	if c.trying != None {
		return
	}
	// A node without a super peer takes a free place first, and bids from there.
	roomy := c.home == None && c.knowsRoom()
	if c.home == None && !roomy && s.cfg.Capacity > 0 && c.lookedAt != now {
		c.look(s, now, out) // gossip knows where there is room
		return
	}
	for i := range c.measured() {
		k := &c.contacts[i]
		if k.peer == c.home || k.peer == s.peer || roomy && k.price > 0 {
			continue
		}
		if c.home == None || c.better(k, s.cfg.margin()) {
			c.attachTo(s, now, *k, out)
		}
		break
	}
	if c.home == None && c.trying == None {
		c.lookSoon(now)
	}
}

// maxSpurned is how often a node without a super peer follows referrals.
const maxSpurned = 3

func (c *client) knowsRoom() bool {
	return slices.ContainsFunc(c.measured(), func(k contact) bool { return k.price == 0 })
}

func (c *client) attachTo(s *self, now Round, k contact, out *Actions) {
	c.trying, c.tryUntil = k.peer, now+1
	out.send(c.request(s, Attach, k.peer, k.rtt))
}

func (c *client) request(s *self, kind Kind, to Peer, rtt float32) Message {
	return Message{
		Kind: kind, From: s.peer, To: to, Slot: c.slot, Peer: c.home,
		RTT: rtt, Alt: c.alternative(to), At: s.at, Key: s.key,
	}
}

func (c *client) accepted(s *self, now Round, m *Message, out *Actions) {
	if m.From == c.home { // a renewal
		c.awaiting, c.slot, c.homeVersion, c.spurned = false, m.Slot, m.Version, 0
		c.renewAt = now + s.cfg.Renew
		return
	}
	if m.From != c.trying { // too late: it is served elsewhere, or a super peer itself
		out.send(Message{Kind: Detach, From: s.peer, To: m.From})
		return
	}
	if c.home != None {
		out.send(Message{Kind: Detach, From: s.peer, To: c.home, Slot: c.slot})
	}
	c.trying, c.awaiting, c.spurned = None, false, 0
	c.home, c.homeToken, c.homeVersion, c.slot = m.From, m.Token, m.Version, m.Slot
	c.homeRTT = -1
	if k := c.contactOf(m.From); k != nil {
		c.homeRTT = k.rtt
	}
	// The first renewal comes early, to spread the renewals over the rounds.
	c.renewAt = now + 1 + Round(s.rng.Below(int(s.cfg.Renew)))
	c.lookAgain(s, now)
}

func (c *client) full(s *self, now Round, m *Message, out *Actions) {
	if m.From != c.trying {
		return
	}
	c.trying = None
	if s.cfg.Method.ranged() {
		c.skip++
		c.seekRange(s, now, out)
		return
	}
	c.spurned = min(c.spurned+1, maxSpurned)
	c.reprice(m.From, m.Alt)
	for _, r := range m.Others {
		if r.Peer != s.peer && c.contactOf(r.Peer) == nil {
			c.measure(r.Peer, r.Token, 0, out)
		}
	}
	if c.waiting == 0 {
		c.choose(s, now, out)
	}
}

// gone handles that the peer is no super peer. It measures the successor, if named.
func (c *client) gone(s *self, now Round, m *Message, serving bool, out *Actions) {
	if m.From == c.trying {
		c.trying = None
	}
	// Two nodes that each name the other as the holder must not send this node back and forth
	// forever.
	c.spurned = min(c.spurned+1, maxSpurned)
	if m.Peer != None && m.Peer != s.peer && c.spurned < maxSpurned {
		c.measure(m.Peer, m.Token, 0, out)
	}
	if m.From == c.home {
		c.orphaned(s, now, m.From, out)
		return
	}
	c.forget(m.From)
	if !serving {
		c.choose(s, now, out)
	}
}

// redirected handles that a different node has taken the place, at a price that this node would not
// pay. It goes where it would have gone then.
func (c *client) redirected(s *self, now Round, m *Message, out *Actions) {
	if m.From != c.home {
		return
	}
	c.home, c.awaiting, c.renewAt = None, false, never
	if s.cfg.Method.ranged() {
		c.skip++
	}
	c.spurned = min(c.spurned+1, maxSpurned)
	c.reprice(m.From, m.Alt)
	c.lookSoon(now)
	c.choose(s, now, out)
}

// moved handles that the token that served this node has a new holder, which has taken over its
// lease. A version that is not newer is late.
func (c *client) moved(s *self, now Round, m *Message, out *Actions) {
	if c.home == None || m.Token != c.homeToken || m.Version <= c.homeVersion {
		if c.home != m.From {
			out.send(Message{Kind: Detach, From: s.peer, To: m.From})
		}
		return
	}
	c.forget(c.home)
	c.home, c.homeVersion, c.slot, c.homeRTT = m.From, m.Version, m.Slot, m.RTT
	c.awaiting, c.renewAt = false, now+1+Round(s.rng.Below(int(s.cfg.Renew)))
	c.lookAgain(s, now)
	if m.RTT < 0 {
		c.measure(m.From, m.Token, 0, out)
		return
	}
	c.note(contact{peer: m.From, token: m.Token, rtt: m.RTT})
	c.choose(s, now, out)
}

func (c *client) recommended(s *self, now Round, m *Message, out *Actions) {
	if m.Peer == s.peer {
		return
	}
	c.note(contact{peer: m.Peer, token: m.Token, rtt: m.RTT})
	c.choose(s, now, out)
}

// release ends the search and the lease, because the node becomes a super peer.
func (c *client) release(s *self, out *Actions) {
	if c.home != None {
		out.send(Message{Kind: Detach, From: s.peer, To: c.home, Slot: c.slot})
	}
	c.home, c.trying, c.awaiting = None, None, false
	c.renewAt, c.lookAt = never, never
}

// resume begins to search again, because the node is no longer a super peer.
func (c *client) resume(s *self, now Round, out *Actions) {
	c.lookGap = 1
	c.forget(s.peer)
	c.look(s, now, out)
}

// follow makes the node a client of the next holder of its token, which has taken over its lease.
func (c *client) follow(now Round, to Peer, token int32, version uint32, rtt float32, slot int) {
	c.home, c.homeToken, c.homeVersion = to, token, version
	c.homeRTT, c.slot = rtt, int32(slot)
	c.renewAt = now + 1
	if rtt >= 0 {
		c.note(contact{peer: to, token: token, rtt: rtt})
	}
}

// refer answers a node that treats this node as a super peer: it names the super peer of this node.
func (c *client) refer(s *self, m *Message, out *Actions) {
	out.send(Message{Kind: Gone, From: s.peer, To: m.From, Peer: c.home, Token: c.homeToken})
}

// seekRange finds the super peer of a node with the prefix methods: it asks the registrar of its
// range or, after refusals, of the ranges behind it.
func (c *client) seekRange(s *self, now Round, out *Actions) {
	count := s.cfg.Count(int(s.size))
	if count == 0 || c.trying != None {
		return
	}
	if int(c.skip) >= count {
		c.skip, c.lookAt = 0, now+1 // all ranges were tried: again later
		return
	}
	token := int32((RangeOf(s.key, count) + int(c.skip)) % count)
	if c.home != None && c.homeToken == token {
		return
	}
	registrar, ok := s.cfg.Router.Owner(s.cfg.TokenKey(token, int(s.size)))
	if !ok {
		return
	}
	c.trying, c.tryUntil = registrar, now+1
	out.send(Message{Kind: Where, From: s.peer, To: registrar, Token: token})
}

// found is the registrar's answer to seekRange.
func (c *client) found(s *self, now Round, m *Message, out *Actions) {
	if c.trying != m.From {
		return
	}
	c.trying = None
	if m.Peer == None || m.Peer == s.peer || m.Peer == c.home {
		return
	}
	c.attachTo(s, now, contact{peer: m.Peer, token: m.Token, rtt: -1}, out)
}
