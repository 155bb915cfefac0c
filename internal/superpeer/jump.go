package superpeer

// A jump moves a token from where its loss is small to where it saves most. The loss is what its
// clients would lose if each went to its alternative. The gain is a result of a different holder's
// survey. Both are measured, neither needs more than the holder's own clients, and gossip carries
// the offer.

// vacancyAge is how long the result of a survey is valid, in rounds.
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
	pooled  bool  // the gain includes clients of further holders
	token   int32 // the bidder's token
}

func (v *vacancy) lockedAt(now Round) bool { return v.locked && now < v.until }

// stale reports whether the survey's result is out of date.
func (v *vacancy) stale(now Round, h *holder) bool {
	d := len(h.leases) - len(v.members)
	return v.at == None || now-v.asOf > vacancyAge || 10*max(d, -d) > len(h.leases) || h.leases.place(v.at, -1) < 0
}

// loss returns what this holder's clients and itself would lose without it; ok is false while any
// of them knows no alternative.
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

// jumpCooling is the number of rounds after which a jump is forgotten.
const jumpCooling = 128

// jumpGate is the ratio of gain to loss that a jump needs. It increases with the token's recent
// jumps: their promised gains did not last. It increases most if places are scarce and every jump
// unsettles many.
func (h *holder) jumpGate(s *self) float64 {
	doubt := 0.1
	if s.cfg.Capacity > 0 {
		doubt = 1
	}
	return s.cfg.JumpGate * (1 + doubt*float64(h.jumps))
}

func (h *holder) considerJump(s *self, now Round, out *Actions) {
	if (now-h.since)%jumpCooling == jumpCooling-1 {
		h.jumps = max(0, h.jumps-1)
	}
	if now < h.jumpAt {
		return
	}
	best := -1
	for i := range h.seen {
		if a := &h.seen[i]; a.Holder != s.peer && a.Gain > 0 && (best < 0 || a.Gain > h.seen[best].Gain) {
			best = i
		}
	}
	loss, ok := h.loss()
	if best < 0 || !ok || float64(h.seen[best].Gain) < h.jumpGate(s)*float64(loss)+restMargins*float64(s.cfg.margin()) {
		return
	}
	h.phase, h.until, h.target = bidding, now+patience, h.seen[best].Holder
	out.send(Message{Kind: Bid, From: s.peer, To: h.target, Token: h.token, Alt: loss})
}

// bidden gives the vacancy to the first bidder that loses little enough.
func (h *holder) bidden(s *self, now Round, m *Message, out *Actions) {
	answer := Message{Kind: Vacant, From: s.peer, To: m.From, Peer: None}
	if h != nil {
		v := &h.vacancy
		free := h.phase == resting && !v.stale(now, h) && !v.lockedAt(now)
		if free && float64(v.gain) >= s.cfg.JumpGate*float64(m.Alt) {
			answer.Peer = v.at
			v.locked, v.until, v.token = true, now+2*patience, m.Token
		}
	}
	out.send(answer)
}

// vacated handles the answer to a bid.
func (h *holder) vacated(s *self, now Round, m *Message, out *Actions) {
	if h == nil || h.phase != bidding || m.From != h.target {
		return
	}
	h.phase, h.handing = resting, nil
	if m.Peer == None {
		h.jumpGap = min(2*h.jumpGap, 8)
		h.jumpAt = now + h.jumpGap
		return
	}
	h.offer(s, now, m.Peer, out)
}

// recommend informs the clients that the token that has just come to the vacancy is nearer to them,
// with the round trip of the survey.
func (h *holder) recommend(s *self, out *Actions) {
	v := h.vacancy
	h.vacancy = vacancy{at: None}
	for i, p := range v.members {
		k := h.leases.place(p, int32(i))
		if k < 0 || v.times[i] < 0 || v.times[i] >= known(h.leases[k].RTT) {
			continue
		}
		out.send(Message{Kind: Recommend, From: s.peer, To: p, Peer: v.at, Token: v.token, RTT: v.times[i]})
	}
}

// askAround begins a poll of this holder's vacancy, if the gain may be worth a jump.
func (h *holder) askAround(s *self, now Round, out *Actions) {
	v := &h.vacancy
	if v.at == None || v.asOf != now || v.pooled {
		return
	}
	least := float32(-1)
	for i := range h.seen {
		if a := &h.seen[i]; a.Loss >= 0 && a.Holder != s.peer && (least < 0 || a.Loss < least) {
			least = a.Loss
		}
	}
	if least < 0 || v.gain < pollShare*least {
		return
	}
	out.send(Message{Kind: Poll, From: s.peer, To: v.at, Token: h.token})
}

// considered answers with the clients; with exact positions, only with those that might gain.
func (h *holder) considered(s *self, m *Message, out *Actions) {
	answer := Message{Kind: Roll, From: s.peer, To: m.From}
	if h != nil {
		price := h.price(s)
		for i := range h.leases {
			l := &h.leases[i]
			if l.RTT >= 0 && l.Peer != m.From && !(s.cfg.Metric.Exact && s.cfg.Metric.Estimate(&m.At, &l.At) >= l.RTT+price) {
				answer.Leases = append(answer.Leases, *l)
				answer.Leases[len(answer.Leases)-1].RTT += price // its place is worth that
			}
		}
	}
	out.send(answer)
}

// polled adds what the clients of further holders would save.
func (h *holder) polled(now Round, m *Message) {
	if h != nil && h.vacancy.at == m.From && !h.vacancy.pooled {
		h.vacancy.gain += m.Alt
		h.vacancy.pooled, h.vacancy.asOf = true, now
	}
}

// hushed forgets this holder's vacancy until the next survey.
func (h *holder) hushed(now Round) {
	if h != nil && !h.vacancy.lockedAt(now) {
		h.vacancy = vacancy{at: None}
		h.moveAt = max(h.moveAt, now+patience)
	}
}
