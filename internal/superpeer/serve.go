package superpeer

import "math"

// Lease is a place that a super peer keeps for a client.
type Lease struct {
	Peer  Peer
	Until Round
	RTT   float32 // milliseconds; negative: not measured
	Alt   float32 // milliseconds to the best other super peer with room; negative: none known
	At    Position
	Key   uint64
}

// holder is a node's part while it is a super peer.
type holder struct {
	token   int32
	version uint32
	moves   int32
	jumps   int32 // of moves, those that were jumps, less one for each jumpCooling
	since   Round // it holds the token
	leases  []Lease
	seen    []Announcement // other super peers, as gossip last told
	keepAt  Round          // renew at the registrar

	phase   phase
	target  Peer  // whom the token may go to
	until   Round // the phase ends
	moveAt  Round // consider moving
	moveGap Round
	handing []Lease // to be given to the target; nil for a jump

	survey  survey
	vacancy vacancy
	jumpAt  Round // consider jumping
	jumpGap Round
	ownAlt  float32 // round trip to the nearest other super peer; negative: unknown
}

// phase is how far a move of the token has come.
type phase uint8

const (
	resting   phase = iota
	surveying       // clients measure
	bidding         // asked another holder for its vacancy
	offering        // asked the target
	recording       // asked the registrar
)

// newHolder starts serving token. The node is nobody's client from now on.
func (n *Node) newHolder(now Round, token int32, version uint32, leases []Lease, out *Actions) {
	c := &n.client
	if c.home != None {
		out.send(Message{Kind: Detach, From: n.self, To: c.home, Slot: c.slot})
	}
	c.home, c.trying, c.awaiting = None, None, false
	c.renewAt, c.lookAt = never, never
	n.free = promise{}
	n.hold = &holder{
		token: token, version: version, since: now, leases: leases,
		target: None, moveAt: now + 2 + Round(n.rng.below(3)), moveGap: 1, jumpGap: 1, ownAlt: -1,
		jumpAt: now + n.cfg.Warmup, vacancy: vacancy{at: None},
	}
	n.announce(out)
}

// stop makes the node an ordinary one again, served by home if not None.
func (n *Node) stop(now Round, out *Actions) {
	n.hold = nil
	n.client.lookAt = now
	n.client.lookGap = 1
	n.client.known = n.dropSelf()
	n.look(now, out)
}

func (n *Node) dropSelf() uint8 {
	n.forget(n.self)
	return n.client.known
}

func (n *Node) announce(out *Actions) {
	h := n.hold
	out.Announce = true
	out.Tell = Announcement{
		Token: h.token, Version: h.version, Holder: n.self,
		Spare: n.spare(), Price: n.price(), At: n.at, Gain: h.vacancy.gain, Loss: -1,
	}
	if loss, ok := h.loss(); ok {
		out.Tell.Loss = loss
	}
}

// spare is how many more nodes may be served.
func (n *Node) spare() int32 {
	if n.cfg.Capacity == 0 {
		return math.MaxInt32
	}
	return int32(max(0, n.cfg.Capacity-len(n.hold.leases)))
}

// wakeHolder does a super peer's round.
func (n *Node) wakeHolder(now Round, out *Actions) {
	h := n.hold
	n.expire(now)
	if now >= h.keepAt {
		h.keepAt = now + keepEvery
		n.keep(out)
	}
	n.announce(out)
	if h.phase != resting && now >= h.until {
		n.abandon(now)
	}
	q := Query{Near: 2*n.cfg.Metric.Dims + 4, Sample: 8, At: n.at, Seed: n.rng.next()}
	if n.cfg.Capacity > 0 {
		q.Spare = maxProbes
	}
	out.Look = q
}

// steer considers a move of the token, once a round and after gossip was heard.
func (n *Node) steer(now Round, out *Actions) {
	switch n.cfg.Method {
	case Textbook:
		n.repel(now, out)
	case Tokens:
		n.ownAlternative()
		n.descend(now, out)
	}
}

func (n *Node) ownAlternative() {
	n.hold.ownAlt = -1
	if n.client.known > 0 {
		n.hold.ownAlt = n.client.contacts[0].rtt
	}
}

func (n *Node) expire(now Round) {
	h := n.hold
	for i := len(h.leases) - 1; i >= 0; i-- {
		if h.leases[i].Until <= now {
			h.remove(i)
		}
	}
}

// place finds peer's lease; hint is where it was when the client last heard.
func (h *holder) place(peer Peer, hint int32) int {
	if hint >= 0 && int(hint) < len(h.leases) && h.leases[hint].Peer == peer {
		return int(hint)
	}
	for i := range h.leases {
		if h.leases[i].Peer == peer {
			return i
		}
	}
	return -1
}

func (h *holder) remove(i int) {
	last := len(h.leases) - 1
	h.leases[i] = h.leases[last]
	h.leases = h.leases[:last]
}

// admit answers a request for a place. Nobody is served beyond the capacity,
// whatever happens.
func (n *Node) admit(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil {
		out.send(Message{Kind: Gone, From: n.self, To: m.From, Peer: n.client.home, Token: n.client.homeToken})
		return
	}
	if i := h.place(m.From, m.Slot); i >= 0 {
		n.accept(now, i, m, out)
		return
	}
	if n.spare() > 0 {
		h.leases = append(h.leases, Lease{Peer: m.From})
		n.accept(now, len(h.leases)-1, m, out)
		return
	}
	n.refuse(now, m, out)
}

func (n *Node) accept(now Round, i int, m *Message, out *Actions) {
	h := n.hold
	h.leases[i] = Lease{Peer: m.From, Until: now + n.cfg.Lease, RTT: m.RTT, Alt: m.Alt, At: m.At, Key: m.Key}
	out.send(Message{Kind: Accept, From: n.self, To: m.From, Token: h.token, Version: h.version, Slot: int32(i)})
}

// refuse is for a super peer without room. If a client has offered less than the
// one who asks, that one gets its place; else it hears the price and where there
// may be room.
func (n *Node) refuse(now Round, m *Message, out *Actions) {
	h := n.hold
	i, price := n.cheapest()
	step := priceStep * h.meanRTT()
	if m.Peer != None {
		step *= servedSteps
	}
	if n.cfg.Method.ranged() {
		i, price = n.lastInRange(m), 0
	} else if i >= 0 && offerOf(m.RTT, m.Alt) < price+step {
		i = -1
	}
	if i >= 0 {
		client := h.leases[i].Peer
		n.accept(now, i, m, out)
		out.send(Message{
			Kind: Redirect, From: n.self, To: client, Token: h.token, Version: h.version, Alt: n.price() + step,
		})
		return
	}
	answer := Message{Kind: Full, From: n.self, To: m.From, Token: h.token, Alt: price + step}
	for i := range h.seen {
		if a := &h.seen[i]; a.Spare > 0 && a.Holder != n.self && len(answer.Others) < maxProbes {
			answer.Others = append(answer.Others, Referral{a.Holder, a.Token})
		}
	}
	out.send(answer)
}

// priceStep is by how much an offer must exceed the lowest one, as a share of the
// mean round trip: small steps find the best places, large ones are quick.
const priceStep = 0.05

// servedSteps is how many of these a node must offer more that is served already:
// what it gains others lose on the way, and with less the bidding never ends.
const servedSteps = 5

// topOffer is what a node offers that knows no other super peer.
const topOffer = 1e6

// offerOf is what a place is worth to a node: what its alternative would cost it
// more.
func offerOf(rtt, alt float32) float32 {
	switch {
	case alt < 0:
		return topOffer
	case rtt < 0:
		return 0
	}
	return max(0, alt-rtt)
}

// cheapest is the client with the lowest offer, -1 if there is none.
func (n *Node) cheapest() (client int, offer float32) {
	client, offer = -1, topOffer
	for i := range n.hold.leases {
		l := &n.hold.leases[i]
		if o := offerOf(l.RTT, l.Alt); o < offer {
			client, offer = i, o
		}
	}
	return client, offer
}

// price is what a place here costs: nothing while there is room.
func (n *Node) price() float32 {
	if n.spare() > 0 {
		return 0
	}
	_, offer := n.cheapest()
	return offer
}

func (h *holder) meanRTT() float32 {
	return float32(sumRTT(h.leases)) / float32(max(len(h.leases), 1))
}

func (n *Node) renewed(now Round, m *Message, out *Actions) {
	if h := n.hold; h != nil {
		if i := h.place(m.From, m.Slot); i >= 0 {
			n.accept(now, i, m, out)
			return
		}
	}
	out.send(Message{Kind: Gone, From: n.self, To: m.From, Peer: n.client.home, Token: n.client.homeToken})
}

func (n *Node) detached(m *Message, out *Actions) {
	h := n.hold
	if h == nil {
		return
	}
	if i := h.place(m.From, m.Slot); i >= 0 {
		h.remove(i)
	}
	if m.From == h.vacancy.at && h.vacancy.locked {
		n.recommend(out)
	}
}
