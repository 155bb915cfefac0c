package superpeer

import (
	"cmp"
	"math/bits"
	"slices"
)

// PrefixBits returns k = ⌈log₂ n⌉: how many leading bits identify n super peers by the rule
// of docs/sources.md, "Coordinator": reserve the first k bits to identify super peers.
func PrefixBits(n int) int {
	if n <= 1 {
		return 0
	}
	return bits.Len(uint(n - 1))
}

// RangeOf is the exact-N variant: the index of p's range among count equal ranges of the 64-bit
// identifier space, ⌊p·count/2⁶⁴⌋. With count = 2^k it is the first k bits of p. A count
// below 1 counts as 1.
func RangeOf(p uint64, count int) int {
	hi, _ := bits.Mul64(p, uint64(max(count, 1)))
	return int(hi)
}

// RangeStart returns the first identifier of range r of count: ⌈r·2⁶⁴/count⌉.
func RangeStart(r, count int) uint64 {
	if r <= 0 || count <= 1 {
		return 0
	}
	quo, rem := bits.Div64(uint64(r%count), 0, uint64(count))
	if rem > 0 {
		quo++
	}
	return quo
}

// Router is the lookup of any DHT, as this process sees it.
type Router interface {
	// Owner returns the process responsible for key: on a ring, the first at or after it. It
	// returns false while the router knows no process.
	Owner(key uint64) (Peer, bool)
}

// Picker is a [Router] that does not know all nodes, and chooses a node to take a token without a
// holder.
type Picker interface {
	// Pick returns a node chosen by draw, which is random. It returns false while none is known.
	Pick(draw uint64) (Peer, bool)
}

// Place is a process on a [Ring].
type Place struct {
	Key  uint64
	Peer Peer
}

// Ring is a consistent ring: a key belongs to the first process at or after it.
// It is not safe for concurrent change.
type Ring struct{ places []Place }

// NewRing makes a ring of places, which it keeps and sorts.
func NewRing(places []Place) *Ring {
	slices.SortFunc(places, comparePlaces)
	return &Ring{places}
}

func comparePlaces(a, b Place) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Peer, b.Peer))
}

// Owner implements [Router].
func (r *Ring) Owner(key uint64) (Peer, bool) {
	if len(r.places) == 0 {
		return None, false
	}
	i, _ := slices.BinarySearchFunc(r.places, key, func(p Place, k uint64) int { return cmp.Compare(p.Key, k) })
	return r.places[i%len(r.places)].Peer, true
}

// Change removes the processes for which left is true from the ring and adds joined, in a single
// pass.
func (r *Ring) Change(left func(Peer) bool, joined []Place) {
	stay := slices.DeleteFunc(r.places, func(p Place) bool { return left(p.Peer) })
	old := slices.Clone(stay)
	slices.SortFunc(joined, comparePlaces)
	out := stay[:0]
	for len(old) > 0 && len(joined) > 0 {
		if comparePlaces(old[0], joined[0]) <= 0 {
			out, old = append(out, old[0]), old[1:]
		} else {
			out, joined = append(out, joined[0]), joined[1:]
		}
	}
	r.places = append(append(out, old...), joined...)
}

// TokenKey returns the key of token's registrar: with the prefix methods the start of its range,
// otherwise a hash, so that registrars are spread evenly. n is the number of nodes.
func (c *Config) TokenKey(token int32, n int) uint64 {
	if c.Method.ranged() {
		return RangeStart(int(token), c.Count(n))
	}
	return Mix(uint64(token) + 0x5ee9)
}
