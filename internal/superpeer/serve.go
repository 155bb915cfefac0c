package superpeer

import (
	"errors"
	"fmt"
	"math"
)

// holder is the state of a super peer. It cannot access the node's search for a super peer. A
// message may arrive late, so methods that handle a message allow a nil holder, unless that was
// excluded before.
type holder struct {
	token   int32
	version uint32
	moves   int32
	jumps   int32 // jumps among moves, less 1 for each jumpCooling
	since   Round // it holds the token
	leases  leases
	seen    []Announcement // known super peers except itself, by gossip
	keepAt  Round          // renew at the registrar

	phase   phase
	target  Peer  // the node that may get the token
	until   Round // the phase ends
	moveAt  Round // consider moving
	moveGap Round
	handing []Lease // to hand to the target; nil for a jump

	survey  survey
	vacancy vacancy
	jumpAt  Round // consider jumping
	jumpGap Round
	ownAlt  float32 // round trip to the nearest super peer except itself; negative: unknown
}

// phase is the progress of a move of the token.
type phase uint8

const (
	resting   phase = iota
	surveying       // clients measure
	bidding         // asked a different holder for its vacancy
	offering        // asked the target
	recording       // asked the registrar
)

func (h *holder) announce(s *self, out *Actions) {
	out.Announce = true
	out.Tell = Announcement{
		Token: h.token, Version: h.version, Holder: s.peer,
		Spare: h.spare(s), Price: h.price(s), At: s.at, Gain: h.vacancy.gain, Loss: -1,
	}
	if loss, ok := h.loss(); ok {
		out.Tell.Loss = loss
	}
}

// spare returns how many more nodes may be served.
func (h *holder) spare(s *self) int32 {
	if s.cfg.Capacity == 0 {
		return math.MaxInt32
	}
	return int32(max(0, s.cfg.Capacity-len(h.leases)))
}

// wake does a super peer's work of a round.
func (h *holder) wake(s *self, now Round, out *Actions) {
	h.leases.expire(now)
	if now >= h.keepAt {
		h.keepAt = now + keepEvery
		h.keep(s, out)
	}
	h.announce(s, out)
	if h.phase != resting && now >= h.until {
		h.abandon(s, now)
	}
	q := Query{Near: 2*s.cfg.Metric.Dims + 4, Sample: 8, At: s.at, Seed: s.rng.Next()}
	if s.cfg.Capacity > 0 {
		q.Spare = maxProbes
	}
	out.Look = q
}

// steer considers a move of the token, once a round, after new announcements. alt is the round trip
// to the nearest super peer except itself; negative: unknown.
func (h *holder) steer(s *self, now Round, alt float32, out *Actions) {
	switch s.cfg.Method {
	case Textbook:
		h.repel(s, now, out)
	case Tokens:
		h.ownAlt = alt
		h.descend(s, now, out)
	}
}

// admit answers a request for a place. It never serves more nodes than the capacity.
func (h *holder) admit(s *self, now Round, m *Message, out *Actions) {
	if h.renewed(s, now, m, out) {
		return
	}
	if h.spare(s) > 0 {
		h.leases = append(h.leases, Lease{Peer: m.From})
		h.accept(s, now, len(h.leases)-1, m, out)
		return
	}
	h.refuse(s, now, m, out)
}

func (h *holder) accept(s *self, now Round, i int, m *Message, out *Actions) {
	h.leases[i] = Lease{Peer: m.From, Until: now + s.cfg.Lease, RTT: m.RTT, Alt: m.Alt, At: m.At, Key: m.Key}
	out.send(Message{Kind: Accept, From: s.peer, To: m.From, Token: h.token, Version: h.version, Slot: int32(i)})
}

// refuse answers a request without room. A node that offers more than a client gets the client's
// place. A node that offers less receives the price, and super peers that may have room.
func (h *holder) refuse(s *self, now Round, m *Message, out *Actions) {
	i, price := h.leases.cheapest()
	step := priceStep * h.leases.meanRTT()
	if m.Peer != None {
		step *= servedSteps
	}
	if s.cfg.Method.ranged() {
		i, price = h.leases.lastInRange(s, h.token, m), 0
	} else if i >= 0 && offerOf(m.RTT, m.Alt) < price+step {
		i = -1
	}
	if i >= 0 {
		client := h.leases[i].Peer
		h.accept(s, now, i, m, out)
		out.send(Message{
			Kind: Redirect, From: s.peer, To: client, Token: h.token, Version: h.version, Alt: h.price(s) + step,
		})
		return
	}
	answer := Message{Kind: Full, From: s.peer, To: m.From, Token: h.token, Alt: price + step}
	for i := range h.seen {
		if a := &h.seen[i]; a.Spare > 0 && a.Holder != s.peer && len(answer.Others) < maxProbes {
			answer.Others = append(answer.Others, Referral{a.Holder, a.Token})
		}
	}
	out.send(answer)
}

// priceStep is by how much an offer must exceed the lowest offer, as a share of the mean round
// trip: small steps find the best places, large steps are fast.
const priceStep = 0.05

// servedSteps is how many of these steps a node that is served already must offer in addition: its
// gain causes losses elsewhere, and with fewer steps the bidding never ends.
const servedSteps = 5

// price returns what a place costs, in milliseconds: nothing while there is room.
func (h *holder) price(s *self) float32 {
	if h.spare(s) > 0 {
		return 0
	}
	_, offer := h.leases.cheapest()
	return offer
}

// renewed extends a client's lease, and reports whether the client has a lease.
func (h *holder) renewed(s *self, now Round, m *Message, out *Actions) bool {
	i := h.leases.place(m.From, m.Slot)
	if i < 0 {
		return false
	}
	h.accept(s, now, i, m, out)
	return true
}

func (h *holder) detached(s *self, m *Message, out *Actions) {
	if i := h.leases.place(m.From, m.Slot); i >= 0 {
		h.leases.remove(i)
	}
	if m.From == h.vacancy.at && h.vacancy.locked {
		h.recommend(s, out)
	}
}

// keep renews the token at its registrar and names heirs: the nearest clients, which would serve
// the rest best.
func (h *holder) keep(s *self, out *Actions) {
	registrar, ok := s.registrarOf(h.token)
	if !ok {
		return
	}
	out.send(Message{
		Kind: Keep, From: s.peer, To: registrar, Token: h.token, Version: h.version,
		Load: int32(len(h.leases)), Peers: h.leases.heirs(),
	})
}

func (h *holder) renewedToken(now Round, m *Message) {
	if h != nil && h.token == m.Token && h.version == m.Version {
		h.keepAt = now + keepEvery
	}
}

// summoned offers the token to the registrar of the range, which should hold it.
func (h *holder) summoned(s *self, now Round, m *Message, out *Actions) {
	if h == nil || h.token != m.Token || h.phase != resting {
		return
	}
	h.handing = append(make([]Lease, 0, len(h.leases)+1), h.leases...)
	h.offer(s, now, m.From, out)
}

// ErrImpossible means that the configured super peers cannot serve the present nodes.
var ErrImpossible = errors.New("capacity impossible")

// Feasible checks that ⌈ρ·n⌉ super peers of capacity C can serve the rest: C·⌈ρn⌉ ≥ n
// − ⌈ρn⌉. The error wraps ErrImpossible and shows the calculation.
func (c *Config) Feasible(n int) error {
	w := c.Wanted(n)
	if c.Capacity == 0 || c.Capacity*w >= n-w {
		return nil
	}
	return fmt.Errorf("%w: %d super peers × capacity %d = %d places for %d other nodes; raise the capacity to %d or the fraction to %.4g",
		ErrImpossible, w, c.Capacity, w*c.Capacity, n-w, (n-w+w-1)/w, 1/float64(c.Capacity+1))
}
