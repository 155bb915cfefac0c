package superpeer

// A jump takes a token from where it is missed little to where it saves most.
// The loss is what its clients would lose if each went to its alternative, the
// gain what another holder's survey has shown. Both are measured, neither needs
// more than the holder's own clients, and gossip carries the offer.

// vacancyAge is how long a survey's finding is believed, in rounds.
const vacancyAge = 2 * maxMoveGap

// vacancy is where a second token would help a holder's clients most.
type vacancy struct {
	gain    float32 // milliseconds in all
	at      Peer    // a client; None: no vacancy
	members []Peer
	times   []float32 // round trips from at to members
	asOf    Round
	until   Round // promised to a bidder
	locked  bool
	pooled  bool  // the gain counts other holders' clients too
	token   int32 // the bidder's
}

func (v *vacancy) lockedAt(now Round) bool { return v.locked && now < v.until }

// stale tells whether what the survey found no longer holds.
func (v *vacancy) stale(now Round, h *holder) bool {
	d := len(h.leases) - len(v.members)
	return v.at == None || now-v.asOf > vacancyAge || 10*max(d, -d) > len(h.leases) || h.place(v.at, -1) < 0
}

// loss is what this holder's clients and itself would lose without it; ok is
// false while somebody knows no alternative.
func (h *holder) loss() (sum float32, ok bool) {
	if h.ownAlt < 0 {
		return 0, false
	}
	sum = h.ownAlt
	for i := range h.leases {
		l := &h.leases[i]
		if l.Alt < 0 || l.RTT < 0 {
			return 0, false
		}
		sum += max(0, l.Alt-l.RTT)
	}
	return sum, true
}

// jumpCooling is after how many rounds a jump is forgotten.
const jumpCooling = 128

// jumpGate is how much more than the loss the gain must be. A token that has
// jumped often is harder to convince: what it saw was not what it found. That
// counts most where places are short and every jump unsettles many.
func (n *Node) jumpGate() float64 {
	doubt := 0.1
	if n.cfg.Capacity > 0 {
		doubt = 1
	}
	return n.cfg.JumpGate * (1 + doubt*float64(n.hold.jumps))
}

func (n *Node) considerJump(now Round, out *Actions) {
	h := n.hold
	if (now-h.since)%jumpCooling == jumpCooling-1 {
		h.jumps = max(0, h.jumps-1)
	}
	if now < h.jumpAt {
		return
	}
	best := -1
	for i := range h.seen {
		if a := &h.seen[i]; a.Holder != n.self && a.Gain > 0 && (best < 0 || a.Gain > h.seen[best].Gain) {
			best = i
		}
	}
	loss, ok := h.loss()
	if best < 0 || !ok || float64(h.seen[best].Gain) < n.jumpGate()*float64(loss)+restMargins*float64(n.cfg.margin()) {
		return
	}
	h.phase, h.until, h.target = bidding, now+patience, h.seen[best].Holder
	out.send(Message{Kind: Bid, From: n.self, To: h.target, Token: h.token, Alt: loss})
}

// bidden gives the vacancy to the first who loses little enough by coming.
func (n *Node) bidden(now Round, m *Message, out *Actions) {
	answer := Message{Kind: Vacant, From: n.self, To: m.From, Peer: None}
	if h := n.hold; h != nil {
		v := &h.vacancy
		free := h.phase == resting && !v.stale(now, h) && !v.lockedAt(now)
		if free && float64(v.gain) >= n.cfg.JumpGate*float64(m.Alt) {
			answer.Peer = v.at
			v.locked, v.until, v.token = true, now+2*patience, m.Token
		}
	}
	out.send(answer)
}

// vacated is the answer to a bid.
func (n *Node) vacated(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.phase != bidding || m.From != h.target {
		return
	}
	h.phase, h.handing = resting, nil
	if m.Peer == None {
		h.jumpGap = min(2*h.jumpGap, 8)
		h.jumpAt = now + h.jumpGap
		return
	}
	n.offer(now, m.Peer, out)
}

// recommend tells the clients that the token which has just come to the vacancy
// is nearer to them. The survey knows how near.
func (n *Node) recommend(out *Actions) {
	h := n.hold
	v := h.vacancy
	h.vacancy = vacancy{at: None}
	for i, p := range v.members {
		k := h.place(p, int32(i))
		if k < 0 || v.times[i] < 0 || v.times[i] >= known(h.leases[k].RTT) {
			continue
		}
		out.send(Message{Kind: Recommend, From: n.self, To: p, Peer: v.at, Token: v.token, RTT: v.times[i]})
	}
}
