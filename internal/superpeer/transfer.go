package superpeer

// How a token moves: the holder offers it to a node, which keeps itself free (phase one). The
// registrar records the new holder under the next version, and only then the token is sent with its
// leases (phase two). The version fences all previous holders. If any message is lost, the holder
// continues as before, or the registrar, without a renewal, grants the token again.

// patience is how long a phase waits for its answer, in rounds.
const patience Round = 3

// abandon cancels a move.
func (h *holder) abandon(s *self, now Round) {
	h.phase, h.target, h.handing = resting, None, nil
	h.survey = survey{size: h.survey.size}
	h.backoff(s, now)
}

// backoff pauses the token for increasing, random times: tokens that move in the same round
// invalidate each other's calculation.
func (h *holder) backoff(s *self, now Round) {
	h.moveGap = min(2*h.moveGap, maxMoveGap)
	h.moveAt = now + h.moveGap + Round(s.rng.Below(int(h.moveGap)+1))
}

// offer begins phase one.
func (h *holder) offer(s *self, now Round, target Peer, out *Actions) {
	h.phase, h.target, h.until = offering, target, now+patience
	out.send(Message{Kind: Offer, From: s.peer, To: target, Token: h.token, Version: h.version})
}

// ready begins phase two.
func (h *holder) ready(s *self, now Round, m *Message, out *Actions) {
	if h == nil || h.phase != offering || m.From != h.target || m.Token != h.token {
		return // late: the node's promise runs out
	}
	registrar, ok := s.registrarOf(h.token)
	if !ok {
		h.abandon(s, now)
		return
	}
	h.phase, h.until = recording, now+patience
	out.send(Message{Kind: Move, From: s.peer, To: registrar, Token: h.token, Version: h.version, Peer: h.target})
}

func (h *holder) declined(s *self, now Round, m *Message) {
	if h != nil && h.phase == offering && m.From == h.target {
		h.abandon(s, now)
	}
}

// handedOver returns the leases for the new holder: the new holder leaves the list and the old
// holder enters it, so the list does not grow.
func (h *holder) handedOver(s *self, now Round, target Peer) []Lease {
	if h.handing == nil {
		return nil
	}
	out := h.handing[:0]
	rtt := float32(-1)
	found := 0
	for i, l := range h.handing {
		k := h.leases.place(l.Peer, int32(i))
		if k < 0 {
			continue // left meanwhile
		}
		found++
		if l.Peer == target {
			rtt = h.leases[k].RTT
			continue
		}
		l.Until = now + s.cfg.Lease
		out = append(out, l)
	}
	// Clients that came meanwhile are handed over too.
	for i := 0; i < len(h.leases) && found < len(h.leases); i++ {
		l := h.leases[i]
		if l.Peer != target && leases(out).place(l.Peer, -1) < 0 {
			l.RTT, l.Until = -1, now+s.cfg.Lease
			out = append(out, l)
			found++
		}
	}
	own := Lease{Peer: s.peer, Until: now + s.cfg.Lease, RTT: rtt, Alt: h.ownAlt, At: s.at, Key: s.key}
	if s.cfg.Capacity > 0 && len(out) >= s.cfg.Capacity {
		return out // a jump's target was no client here: the old holder looks elsewhere
	}
	return append(out, own)
}

// serve makes the node the holder of token, and a client no longer.
func (n *Node) serve(now Round, token int32, version uint32, leases []Lease, out *Actions) {
	n.client.release(&n.self, out)
	n.free = promise{}
	n.hold = &holder{
		token: token, version: version, since: now, leases: leases,
		target: None, moveAt: now + 2 + Round(n.rng.Below(3)), moveGap: 1, jumpGap: 1, ownAlt: -1,
		jumpAt: now + n.cfg.Warmup, vacancy: vacancy{at: None},
	}
	n.hold.announce(&n.self, out)
}

// stop makes the node an ordinary node again. It informs its clients that it is no super peer, and
// that successor is.
func (n *Node) stop(now Round, successor Peer, out *Actions) {
	for _, l := range n.hold.leases {
		out.send(Message{Kind: Gone, From: n.peer, To: l.Peer, Token: n.hold.token, Peer: successor})
	}
	n.hold = nil
	n.client.resume(&n.self, now, out)
}

// granted handles a registrar's grant of a token.
func (n *Node) granted(now Round, m *Message, out *Actions) {
	switch {
	case n.hold != nil && n.hold.token == m.Token:
		n.hold.version = max(n.hold.version, m.Version)
	case n.reserved(now, m.Token):
		out.send(Message{Kind: Decline, From: n.peer, To: m.From, Token: m.Token, Version: m.Version})
		return
	default:
		n.serve(now, m.Token, m.Version, nil, out)
	}
	n.hold.keep(&n.self, out)
}

// reserved reports whether the node holds a token, or has promised to take a token except this.
func (n *Node) reserved(now Round, token int32) bool {
	return n.hold != nil || n.free.until > now && n.free.token != token
}

// dropped handles that a different node holds the token under a newer version, or that the token is
// not needed any more. The clients turn to their deputies.
func (n *Node) dropped(now Round, m *Message, out *Actions) {
	if h := n.hold; h != nil && h.token == m.Token && m.Version >= h.version {
		n.stop(now, m.Peer, out)
	}
}

func (n *Node) offered(now Round, m *Message, out *Actions) {
	if n.reserved(now, m.Token) {
		out.send(Message{Kind: Decline, From: n.peer, To: m.From, Token: m.Token})
		return
	}
	n.free = promise{token: m.Token, until: now + 2*patience}
	n.helper.hush(&n.self, n.client.home, n.client.measured(), out)
	out.send(Message{Kind: Ready, From: n.peer, To: m.From, Token: m.Token, Version: m.Version})
}

// confirmed handles that the token is no longer this node's. It is sent with its clients; a token
// that jumps is sent without them.
func (n *Node) confirmed(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.phase != recording || m.Token != h.token || m.Version != h.version+1 {
		return
	}
	if h.handing == nil {
		h.jumps++
	}
	leases := h.handedOver(&n.self, now, m.Peer)
	out.send(Message{
		Kind: Transfer, From: n.peer, To: h.target, Token: h.token, Version: m.Version,
		Slot: h.moves + 1, Load: h.jumps, Leases: leases,
	})
	if h.handing != nil {
		h.leases = nil
	}
	n.stop(now, None, out)
	if last := len(leases) - 1; last >= 0 && leases[last].Peer == n.peer {
		n.client.follow(now, h.target, h.token, m.Version, leases[last].RTT, last)
	}
}

// transferred handles that the token is this node's now. It informs its clients.
func (n *Node) transferred(now Round, m *Message, out *Actions) {
	if n.hold != nil || n.free.token != m.Token || n.free.until <= now {
		return // the promise has ended; the registrar grants the token again
	}
	if n.client.home == m.From {
		n.client.home = None // the lease went over and became the token
	}
	n.serve(now, m.Token, m.Version, m.Leases, out)
	n.hold.moves, n.hold.jumps = m.Slot, m.Load
	n.hold.keepAt = now + 1
	n.helper.invite(&n.self, m.Token, out)
	for i := range m.Leases {
		l := &m.Leases[i]
		if l.Peer == m.From {
			continue
		}
		out.send(Message{
			Kind: Moved, From: n.peer, To: l.Peer, Token: m.Token, Version: m.Version, Slot: int32(i), RTT: l.RTT,
		})
	}
}
