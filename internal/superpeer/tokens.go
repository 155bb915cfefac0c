package superpeer

import "slices"

// The refined protocol, the default. A token moves to the node that serves its clients best by
// measured round trips: local descent, in which each step must gain something. Positions are only
// used to propose candidates. Descent cannot leave a crowded place for an empty place; jumps do
// that (jump.go).

// maxMoveGap is the longest a holder goes without a survey, in rounds.
const maxMoveGap Round = 8

// restMargins is the mean distance of a token's clients, in margins, at which the token rests, and
// the margins in total that a jump must gain: if all nodes are in a single room, round trips differ
// only by chance.
const restMargins = 3

// unreachableRTT replaces a round trip that could not be measured.
const unreachableRTT = 10_000

// survey is what a holder has asked its clients to measure.
type survey struct {
	members    []Lease
	peers      []Peer
	candidates []Peer
	times      [][]float32 // by candidate; nil until answered
	left       int
	size       int // clients at the last survey
}

// descend surveys, every few rounds, whether a client would serve the clients better.
func (h *holder) descend(s *self, now Round, out *Actions) {
	if h.phase != resting || h.vacancy.lockedAt(now) {
		return
	}
	if d := len(h.leases) - h.survey.size; 10*max(d, -d) > len(h.leases) {
		h.moveAt = min(h.moveAt, now+1) // the clients have changed
	}
	if now < h.moveAt || len(h.leases) == 0 {
		h.considerJump(s, now, out)
		return
	}
	q := &h.survey
	*q = survey{members: append([]Lease(nil), h.leases...), size: len(h.leases)}
	q.candidates = h.candidates(s)
	q.peers = make([]Peer, len(q.members))
	for i := range q.members {
		q.peers[i] = q.members[i].Peer
	}
	q.times = make([][]float32, len(q.candidates))
	q.left = len(q.candidates)
	h.phase, h.until = surveying, now+patience
	for _, p := range q.candidates {
		out.send(Message{Kind: Assess, From: s.peer, To: p, Token: h.token, Version: h.version, Peers: q.peers})
	}
}

func (h *holder) assessed(s *self, now Round, m *Message, out *Actions) {
	if h == nil || h.phase != surveying || m.Token != h.token {
		return
	}
	q := &h.survey
	for i, p := range q.candidates {
		if p == m.From && q.times[i] == nil && len(m.Times) == len(q.members) {
			q.times[i] = m.Times
			q.left--
		}
	}
	if q.left == 0 {
		h.decide(s, now, out)
	}
}

// decide moves the token if a candidate is enough better than this node, and records where a second
// token would help most.
func (h *holder) decide(s *self, now Round, out *Actions) {
	q := &h.survey
	h.phase = resting
	base := sumRTT(q.members)
	best, cost := -1, base*(1-s.cfg.Gate)
	if base <= restMargins*float64(s.cfg.margin())*float64(len(q.members)) {
		cost = 0 // its clients are as near as can be measured
	}
	if h.vacancy.stale(now, h) {
		h.vacancy = vacancy{at: None}
	}
	for i, p := range q.candidates {
		if q.times[i] == nil {
			continue
		}
		c, gain := h.judge(s, p, q.times[i])
		if c < cost {
			best, cost = i, c
		}
		if gain > float64(h.vacancy.gain) {
			h.vacancy = vacancy{gain: float32(gain), at: p, times: q.times[i], members: q.peers, asOf: now}
		}
	}
	if best < 0 {
		h.backoff(s, now)
		h.askAround(s, now, out)
		q.members, q.times = nil, nil
		return
	}
	h.handing = q.members
	for i := range h.handing {
		h.handing[i].RTT = known(q.times[best][i])
	}
	h.vacancy = vacancy{at: None}
	h.offer(s, now, q.candidates[best], out)
	q.times = nil
}

// judge returns the sum of the clients' round trips if candidate p held the token, and how much a
// second token there would save. The cost deliberately ignores that a client might go elsewhere:
// neighbours calculate the same at the same time, and tokens that rely on each other's clients
// never settle. A client that goes to p also frees a place, which is worth its price.
func (h *holder) judge(s *self, p Peer, times []float32) (cost, gain float64) {
	price := h.price(s)
	var gains []float32
	for i := range times {
		l := &h.survey.members[i]
		rtt := known(l.RTT)
		if l.Peer == p {
			cost += float64(rtt) // this node's own round trip to p
			gain += float64(rtt + price)
			continue
		}
		t := known(times[i])
		cost += float64(t)
		if rtt+price > t+s.cfg.margin() { // otherwise it would not go there
			gains = append(gains, rtt+price-t)
		}
	}
	return cost, gain + s.cfg.largest(gains)
}

// candidates proposes clients to survey: those nearest to the middle by position; those nearest to
// this node by measurement, which also finds fast access links; a random client; and clients where
// a second token would help.
func (h *holder) candidates(s *self) []Peer {
	var list []Peer
	add := func(i int) {
		if i >= 0 && !slices.Contains(list, h.leases[i].Peer) {
			list = append(list, h.leases[i].Peer)
		}
	}
	m := h.leases.middle(s)
	for range 2 {
		add(h.leases.least(list, func(l *Lease) float32 { return length(s.cfg.Metric.Offset(&m, &l.At)) + l.At.Height }))
	}
	if !s.cfg.Metric.Exact {
		for range 2 {
			add(h.leases.least(list, func(l *Lease) float32 { return known(l.RTT) }))
		}
		add(s.rng.Below(len(h.leases)))
		add(h.leases.farOff(s))
		add(h.leases.farOff(s))
	}
	for range 2 {
		add(h.leases.loneliest(s))
	}
	return list
}
