package superpeer

// How a token moves: the holder offers it to a node, which keeps itself free
// (phase one); the registrar records the new holder under the next version, and
// only then the token goes over with its leases (phase two). The version fences
// whoever held it before. If anything is lost on the way, the holder goes on as
// before, or the registrar, hearing from nobody, grants the token anew.

// patience is how long a phase waits for its answer, in rounds.
const patience Round = 3

// abandon gives a move up.
func (n *Node) abandon(now Round) {
	h := n.hold
	h.phase, h.target, h.handing = resting, None, nil
	h.survey = survey{size: h.survey.size}
	n.backoff(now)
}

// backoff lets the token rest, ever longer, and not as long as its neighbours:
// tokens that move in the same round spoil each other's reckoning.
func (n *Node) backoff(now Round) {
	h := n.hold
	h.moveGap = min(2*h.moveGap, maxMoveGap)
	h.moveAt = now + h.moveGap + Round(n.rng.below(int(h.moveGap)+1))
}

// offer begins phase one.
func (n *Node) offer(now Round, target Peer, out *Actions) {
	h := n.hold
	h.phase, h.target, h.until = offering, target, now+patience
	out.send(Message{Kind: Offer, From: n.self, To: target, Token: h.token, Version: h.version})
}

func (n *Node) offered(now Round, m *Message, out *Actions) {
	if n.hold != nil || n.free.until > now && n.free.token != m.Token {
		out.send(Message{Kind: Decline, From: n.self, To: m.From, Token: m.Token})
		return
	}
	n.free = promise{token: m.Token, until: now + 2*patience}
	n.hush(out)
	out.send(Message{Kind: Ready, From: n.self, To: m.From, Token: m.Token, Version: m.Version})
}

// ready begins phase two.
func (n *Node) ready(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.phase != offering || m.From != h.target || m.Token != h.token {
		return // late: the node's promise runs out
	}
	registrar, ok := n.registrar(h.token)
	if !ok {
		n.abandon(now)
		return
	}
	h.phase, h.until = recording, now+patience
	out.send(Message{Kind: Move, From: n.self, To: registrar, Token: h.token, Version: h.version, Peer: h.target})
}

func (n *Node) declined(now Round, m *Message, out *Actions) {
	if h := n.hold; h != nil && h.phase == offering && m.From == h.target {
		n.abandon(now)
	}
	n.grantDeclined(now, m, out)
}

// confirmed: the token is no longer this node's. It goes over, and so do those
// whom it served.
func (n *Node) confirmed(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.phase != recording || m.Token != h.token || m.Version != h.version+1 {
		return
	}
	target := h.target
	if h.handing == nil {
		h.jumps++
	}
	leases := n.handedOver(now, m.Peer)
	out.send(Message{
		Kind: Transfer, From: n.self, To: target, Token: h.token, Version: m.Version,
		Slot: h.moves + 1, Load: h.jumps, Leases: leases,
	})
	if h.handing != nil {
		n.follow(now, target, h, m.Version, leases, out)
		return
	}
	for i := range h.leases {
		out.send(Message{Kind: Gone, From: n.self, To: h.leases[i].Peer, Token: h.token, Peer: None})
	}
	n.stop(now, out)
}

// handedOver is the list of leases for the new holder: it leaves the list, the
// old holder enters it, so the list does not grow.
func (n *Node) handedOver(now Round, target Peer) []Lease {
	h := n.hold
	if h.handing == nil {
		return nil
	}
	out := h.handing[:0]
	rtt := float32(-1)
	found := 0
	for i, l := range h.handing {
		k := h.place(l.Peer, int32(i))
		if k < 0 {
			continue // left meanwhile
		}
		found++
		if l.Peer == target {
			rtt = h.leases[k].RTT
			continue
		}
		l.Until = now + n.cfg.Lease
		out = append(out, l)
	}
	// Whoever came meanwhile goes over too.
	for i := 0; i < len(h.leases) && found < len(h.leases); i++ {
		l := h.leases[i]
		if l.Peer != target && !listed(out, l.Peer) {
			l.RTT, l.Until = -1, now+n.cfg.Lease
			out = append(out, l)
			found++
		}
	}
	own := Lease{Peer: n.self, Until: now + n.cfg.Lease, RTT: rtt, Alt: h.ownAlt, At: n.at, Key: n.key}
	if n.cfg.Capacity > 0 && len(out) >= n.cfg.Capacity {
		return out // a jump's target was nobody's client here: the old holder looks elsewhere
	}
	return append(out, own)
}

func listed(leases []Lease, peer Peer) bool {
	for i := range leases {
		if leases[i].Peer == peer {
			return true
		}
	}
	return false
}

// follow makes the old holder a client of the new one.
func (n *Node) follow(now Round, target Peer, h *holder, version uint32, leases []Lease, out *Actions) {
	n.stop(now, out)
	if len(leases) == 0 || leases[len(leases)-1].Peer != n.self {
		return
	}
	c := &n.client
	c.home, c.homeToken, c.homeVersion = target, h.token, version
	c.homeRTT, c.slot = leases[len(leases)-1].RTT, int32(len(leases)-1)
	c.renewAt = now + 1
	if c.homeRTT >= 0 {
		n.note(contact{peer: target, token: h.token, rtt: c.homeRTT})
	}
}

// transferred: the token is this node's now. It tells those it serves.
func (n *Node) transferred(now Round, m *Message, out *Actions) {
	if n.hold != nil || n.free.token != m.Token || n.free.until <= now {
		return // the promise ran out; the registrar will grant the token anew
	}
	if n.client.home == m.From {
		n.client.home = None // the lease went over and became the token
	}
	moves := m.Slot
	n.newHolder(now, m.Token, m.Version, m.Leases, out)
	n.hold.moves, n.hold.jumps = moves, m.Load
	n.hold.keepAt = now + 1
	n.invite(out)
	for i := range m.Leases {
		l := &m.Leases[i]
		if l.Peer == m.From {
			continue
		}
		out.send(Message{
			Kind: Moved, From: n.self, To: l.Peer, Token: m.Token, Version: m.Version, Slot: int32(i), RTT: l.RTT,
		})
	}
}
