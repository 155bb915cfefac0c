package superpeer

import (
	"math"
	"slices"
)

// The refined protocol, the default. A token goes where it serves its clients
// best by the round trips they measured: local descent, of which each step must
// gain something. Positions only propose whom to try. What descent cannot do,
// leave a crowded place for an empty one, jumps do (jump.go).

// maxMoveGap is the longest a holder goes without a survey, in rounds.
const maxMoveGap Round = 8

// restMargins is how many margins a token's clients are away in the mean when it rests, and
// how many margins in all a jump must gain: where all nodes are in one room, round trips differ by chance only.
const restMargins = 3

// unreachableRTT stands for a round trip that could not be measured.
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

// descend surveys, now and then, whether a client would serve the others better.
func (n *Node) descend(now Round, out *Actions) {
	h := n.hold
	if h.phase != resting || h.vacancy.lockedAt(now) {
		return
	}
	if d := len(h.leases) - h.survey.size; 10*max(d, -d) > len(h.leases) {
		h.moveAt = min(h.moveAt, now+1) // others are served now
	}
	if now < h.moveAt || len(h.leases) == 0 {
		n.considerJump(now, out)
		return
	}
	s := &h.survey
	*s = survey{members: append([]Lease(nil), h.leases...), size: len(h.leases)}
	s.candidates = n.candidates()
	s.peers = make([]Peer, len(s.members))
	for i := range s.members {
		s.peers[i] = s.members[i].Peer
	}
	s.times = make([][]float32, len(s.candidates))
	s.left = len(s.candidates)
	h.phase, h.until = surveying, now+patience
	for _, p := range s.candidates {
		out.send(Message{Kind: Assess, From: n.self, To: p, Token: h.token, Version: h.version, Peers: s.peers})
	}
}

func (n *Node) assessed(now Round, m *Message, out *Actions) {
	h := n.hold
	if h == nil || h.phase != surveying || m.Token != h.token {
		return
	}
	s := &h.survey
	for i, p := range s.candidates {
		if p == m.From && s.times[i] == nil && len(m.Times) == len(s.members) {
			s.times[i] = m.Times
			s.left--
		}
	}
	if s.left == 0 {
		n.decide(now, out)
	}
}

// decide moves the token if a candidate is enough better than this node, and
// notes where a second token would help most.
func (n *Node) decide(now Round, out *Actions) {
	h := n.hold
	s := &h.survey
	h.phase = resting
	base := sumRTT(s.members)
	best, cost := -1, base*(1-n.cfg.Gate)
	if base <= restMargins*float64(n.cfg.margin())*float64(len(s.members)) {
		cost = 0 // its clients are as near as can be measured
	}
	if h.vacancy.stale(now, h) {
		h.vacancy = vacancy{at: None}
	}
	for i, p := range s.candidates {
		if s.times[i] == nil {
			continue
		}
		c, gain := n.judge(p, s.times[i])
		if c < cost {
			best, cost = i, c
		}
		if gain > float64(h.vacancy.gain) {
			h.vacancy = vacancy{gain: float32(gain), at: p, times: s.times[i], members: s.peers, asOf: now}
		}
	}
	if best < 0 {
		n.backoff(now)
		n.askAround(now, out)
		s.members, s.times = nil, nil
		return
	}
	h.handing = s.members
	for i := range h.handing {
		h.handing[i].RTT = known(s.times[best][i])
	}
	h.vacancy = vacancy{at: None}
	n.offer(now, s.candidates[best], out)
	s.times = nil
}

func sumRTT(leases []Lease) (sum float64) {
	for i := range leases {
		sum += float64(known(leases[i].RTT))
	}
	return sum
}

// known is a round trip with a forbidding value for one that was not measured.
func known(rtt float32) float32 {
	if rtt < 0 {
		return unreachableRTT
	}
	return rtt
}

// judge is what the clients' round trips would sum up to if candidate p held the
// token, and how much a second token there would save. That a client might go
// elsewhere instead is left out of the cost on purpose: the neighbours reckon the
// same at the same time, and tokens that trust in each other's clients never
// settle. A client that goes to p also frees a place, which is worth its price.
func (n *Node) judge(p Peer, times []float32) (cost, gain float64) {
	price := n.price()
	var gains []float32
	for i := range times {
		l := &n.hold.survey.members[i]
		rtt := known(l.RTT)
		if l.Peer == p {
			cost += float64(rtt) // this node's own way to p
			gain += float64(rtt + price)
			continue
		}
		t := known(times[i])
		cost += float64(t)
		if rtt+price > t+n.cfg.margin() { // else it would not go there
			gains = append(gains, rtt+price-t)
		}
	}
	return cost, gain + n.cfg.largest(gains)
}

// largest adds up the gains that a super peer's capacity allows.
func (c *Config) largest(gains []float32) (sum float64) {
	if c.Capacity > 0 && len(gains) > c.Capacity {
		slices.Sort(gains)
		gains = gains[len(gains)-c.Capacity:]
	}
	for _, g := range gains {
		sum += float64(g)
	}
	return sum
}

// candidates proposes clients to survey: those next to the middle of all by
// position, those nearest to this node as measured, which also finds the good
// access links, a random one, and those that lie where a second token would help.
func (n *Node) candidates() []Peer {
	h := n.hold
	var list []Peer
	add := func(i int) {
		for _, p := range list {
			if i < 0 || p == h.leases[i].Peer {
				return
			}
		}
		if i >= 0 {
			list = append(list, h.leases[i].Peer)
		}
	}
	m := n.middle()
	for range 2 {
		add(n.least(list, func(l *Lease) float32 { return length(n.cfg.Metric.Offset(&m, &l.At)) + l.At.Height }))
	}
	if !n.cfg.Metric.Exact {
		for range 2 {
			add(n.least(list, func(l *Lease) float32 { return known(l.RTT) }))
		}
		add(n.rng.below(len(h.leases)))
		add(n.farOff())
		add(n.farOff())
	}
	for range 2 {
		add(n.loneliest())
	}
	return list
}

// least is the client that score ranks first among those not listed yet.
func (n *Node) least(but []Peer, score func(*Lease) float32) int {
	best, low := -1, float32(math.MaxFloat32)
	for i := range n.hold.leases {
		l := &n.hold.leases[i]
		if s := score(l); s < low && !has(but, l.Peer) {
			best, low = i, s
		}
	}
	return best
}

func has(list []Peer, p Peer) bool {
	for _, q := range list {
		if p == q {
			return true
		}
	}
	return false
}

// middle is the geometric median of the clients' positions by a few of
// Weiszfeld's steps (Tôhoku Mathematical Journal 43, 1937).
func (n *Node) middle() Position {
	m := n.at
	m.Height = 0
	for range 4 {
		var sum [MaxDims]float32
		var weight float32
		for i := range n.hold.leases {
			v := n.cfg.Metric.Offset(&m, &n.hold.leases[i].At)
			w := 1 / max(length(v), 1e-3)
			for d := range v {
				sum[d] += w * v[d]
			}
			weight += w
		}
		for d := range sum {
			m.X[d] += sum[d] / weight
		}
	}
	return m
}

// farOff is the farthest, as measured, of three random clients.
func (n *Node) farOff() int {
	h := n.hold
	far := n.rng.below(len(h.leases))
	for range 2 {
		if i := n.rng.below(len(h.leases)); h.leases[i].RTT > h.leases[far].RTT {
			far = i
		}
	}
	return far
}

// loneliest is, of a few random clients, the one where by position a second
// token would save most.
func (n *Node) loneliest() int {
	h := n.hold
	best, most := -1, float32(-1)
	for range 6 {
		i := n.rng.below(len(h.leases))
		gain := float32(0)
		for k := range h.leases {
			l := &h.leases[k]
			gain += max(0, l.RTT-n.cfg.Metric.Estimate(&h.leases[i].At, &l.At))
		}
		if gain > most {
			best, most = i, gain
		}
	}
	return best
}
