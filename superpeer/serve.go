package superpeer

import "math"

// maxPledges is how many places a full super peer frees at a time.
const maxPledges = 8

// Lease is a place that a super peer keeps for a client.
type Lease struct {
	Peer  Peer
	Until Round
	RTT   float32 // milliseconds; negative: not measured
	Alt   float32 // milliseconds to the best other super peer with room; negative: none known
	At    Position
	Key   uint64
}

// pledge is a place being freed for peer.
type pledge struct {
	peer  Peer
	until Round
}

// holder is a node's part while it is a super peer.
type holder struct {
	token   int32
	version uint32
	moves   int32
	since   Round // it holds the token
	leases  []Lease
	pledges []pledge
	seen    []Announcement // other super peers, as gossip last told
	keepAt  Round          // renew at the steward

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
	recording       // asked the steward
)

// newHolder starts serving token. The node is nobody's client from now on.
func (n *Node) newHolder(now Round, token int32, version uint32, leases []Lease, out *Actions) {
	c := &n.client
	if c.home != None {
		out.send(Message{Kind: Detach, From: n.self, To: c.home, Slot: c.slot})
	}
	c.home, c.trying, c.awaiting, c.pushed = None, None, false, false
	c.renewAt, c.lookAt = never, never
	n.free = promise{}
	n.hold = &holder{
		token: token, version: version, since: now, leases: leases,
		target: None, moveAt: now + 2 + Round(n.rng.below(3)), moveGap: 1, jumpGap: 4, ownAlt: -1,
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
		Spare: n.spare(), At: n.at, Gain: h.vacancy.gain,
	}
}

// spare is how many more nodes may be served. Places being freed for others are
// not spare.
func (n *Node) spare() int32 {
	if n.cfg.Capacity == 0 {
		return math.MaxInt32
	}
	return int32(max(0, n.cfg.Capacity-len(n.hold.leases)-len(n.hold.pledges)))
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
	kept := h.pledges[:0]
	for _, p := range h.pledges {
		if p.until > now {
			kept = append(kept, p)
		}
	}
	h.pledges = kept
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

// take keeps one of the places pledged to peer and tells whether there was one.
func (h *holder) take(peer Peer) bool {
	for i, p := range h.pledges {
		if p.peer == peer {
			h.pledges = append(h.pledges[:i], h.pledges[i+1:]...)
			return true
		}
	}
	return false
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
	pledged := h.take(m.From)
	if n.spare() > 0 || pledged && len(h.leases) < n.cfg.Capacity {
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

// refuse says where else there may be room. If a client would lose less by
// going than the one who asks gains, the client is asked to go.
func (n *Node) refuse(now Round, m *Message, out *Actions) {
	h := n.hold
	answer := Message{Kind: Full, From: n.self, To: m.From, Token: h.token}
	for i := range h.seen {
		if a := &h.seen[i]; a.Spare > 0 && a.Holder != n.self && len(answer.Others) < maxProbes {
			answer.Others = append(answer.Others, Referral{a.Holder, a.Token})
		}
	}
	if n.cfg.Method.ranged() {
		if n.makeRoom(m, out) {
			answer.Slot = 1
			h.pledges = append(h.pledges, pledge{m.From, now + 2})
		}
	} else if i := n.cheapest(m); i >= 0 && len(h.pledges) < maxPledges {
		answer.Slot = 1
		h.pledges = append(h.pledges, pledge{m.From, now + 3})
		out.send(Message{Kind: Redirect, From: n.self, To: h.leases[i].Peer, Token: h.token, Version: h.version})
		h.leases[i].Alt = -1 // asked once; its next renewal says what it knows then
	}
	out.send(answer)
}

// cheapest is the client that loses least by going elsewhere, if that is less
// than what the asker loses by staying away; else -1.
func (n *Node) cheapest(m *Message) int {
	h := n.hold
	best, loss := -1, float32(math.MaxFloat32)
	if m.Alt >= 0 {
		loss = (m.Alt - m.RTT) * (1 - switchGain)
	}
	for i := range h.leases {
		l := &h.leases[i]
		if l.Alt < 0 || l.RTT < 0 {
			continue
		}
		if d := l.Alt - l.RTT; d < loss {
			best, loss = i, d
		}
	}
	return best
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
