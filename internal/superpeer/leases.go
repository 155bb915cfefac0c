package superpeer

import (
	"math"
	"slices"
)

// Lease is a place that a super peer keeps for a client.
type Lease struct {
	Peer  Peer
	Until Round
	RTT   float32 // milliseconds; negative: not measured
	Alt   float32 // milliseconds to the best alternative super peer with room; negative: none known
	At    Position
	Key   uint64
}

// leases are the clients of a super peer.
type leases []Lease

// place returns the index of peer's lease; hint is the index that the client last received. -1: it has none.
func (l leases) place(peer Peer, hint int32) int {
	if hint >= 0 && int(hint) < len(l) && l[hint].Peer == peer {
		return int(hint)
	}
	for i := range l {
		if l[i].Peer == peer {
			return i
		}
	}
	return -1
}

// remove ends a lease. The last lease takes its index.
func (l *leases) remove(i int) {
	last := len(*l) - 1
	(*l)[i] = (*l)[last]
	*l = (*l)[:last]
}

// expire ends the leases that were not renewed in time.
func (l *leases) expire(now Round) {
	for i := len(*l) - 1; i >= 0; i-- {
		if (*l)[i].Until <= now {
			l.remove(i)
		}
	}
}

// cheapest returns the client with the lowest offer; -1: there is no client.
func (l leases) cheapest() (client int, lowest float32) {
	client, lowest = -1, topOffer
	for i := range l {
		if o := offerOf(l[i].RTT, l[i].Alt); o < lowest {
			client, lowest = i, o
		}
	}
	return client, lowest
}

// meanRTT returns the mean round trip of the clients in milliseconds.
func (l leases) meanRTT() float32 {
	return float32(sumRTT(l)) / float32(max(len(l), 1))
}

// heirs returns the nearest clients, the nearest first.
func (l leases) heirs() []Peer {
	var best [maxHeirs]int
	k := 0
	for i := range l {
		rtt := l[i].RTT
		if rtt < 0 || k == maxHeirs && rtt >= l[best[k-1]].RTT {
			continue
		}
		if k < maxHeirs {
			k++
		}
		j := k - 1
		for j > 0 && l[best[j-1]].RTT > rtt {
			best[j] = best[j-1]
			j--
		}
		best[j] = i
	}
	if k == 0 {
		return nil
	}
	heirs := make([]Peer, k)
	for i := range heirs {
		heirs[i] = l[best[i]].Peer
	}
	return heirs
}

// least returns the client with the lowest score of those that are not in but; -1: there is none.
func (l leases) least(but []Peer, score func(*Lease) float32) int {
	best, low := -1, float32(math.MaxFloat32)
	for i := range l {
		if s := score(&l[i]); s < low && !slices.Contains(but, l[i].Peer) {
			best, low = i, s
		}
	}
	return best
}

// middle returns the geometric median of the clients' positions by a few of
// Weiszfeld's steps (Tôhoku Mathematical Journal 43, 1937).
func (l leases) middle(s *self) Position {
	m := s.at
	m.Height = 0
	for range 4 {
		var sum [MaxDims]float32
		var weight float32
		for i := range l {
			v := s.cfg.Metric.Offset(&m, &l[i].At)
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

// farOff returns, of three random clients, the client with the longest round trip.
func (l leases) farOff(s *self) int {
	far := s.rng.Below(len(l))
	for range 2 {
		if i := s.rng.Below(len(l)); l[i].RTT > l[far].RTT {
			far = i
		}
	}
	return far
}

// loneliest returns, of six random clients, the client at which a second token would save most by
// position.
func (l leases) loneliest(s *self) int {
	best, most := -1, float32(-1)
	for range 6 {
		i := s.rng.Below(len(l))
		gain := float32(0)
		for k := range l {
			gain += max(0, l[k].RTT-s.cfg.Metric.Estimate(&l[i].At, &l[k].At))
		}
		if gain > most {
			best, most = i, gain
		}
	}
	return best
}

// topOffer is the offer of a node that knows no alternative super peer.
const topOffer = 1e6

// offerOf returns what a place is worth to a node: what its alternative would cost in addition.
func offerOf(rtt, alt float32) float32 {
	switch {
	case alt < 0:
		return topOffer
	case rtt < 0:
		return 0
	}
	return max(0, alt-rtt)
}

func sumRTT(leases []Lease) (sum float64) {
	for i := range leases {
		sum += float64(known(leases[i].RTT))
	}
	return sum
}

// known returns a round trip, or a prohibitive value if it was not measured.
func known(rtt float32) float32 {
	if rtt < 0 {
		return unreachableRTT
	}
	return rtt
}

// lastInRange returns the client that a full super peer sends on if m's sender lies nearer to the
// start of the range of token: the last client. It returns -1 if the sender lies behind all. So the
// range is split behind the first Capacity nodes.
func (l leases) lastInRange(s *self, token int32, m *Message) int {
	last, worst := -1, s.offset(m.Key, token)
	for i := range l {
		if o := s.offset(l[i].Key, token); o > worst {
			last, worst = i, o
		}
	}
	return last
}
