package lab

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// space is a population and the true round trips between its members, which are
// numbered by slot. Only slots below size are valid.
type space interface {
	size() int
	rtt(a, b int32) float32 // milliseconds, symmetric
	// settle puts a new node into slot, as the generator would, or, in a space with a fixed
	// population, the same node again.
	settle(slot int32, seed uint64)
	// grow adds up to that many slots and returns how many it added.
	grow(n int) int
	metric() superpeer.Metric
	// point returns the true position of the slot; ok is false if there are only round trips.
	point(slot int32) (superpeer.Position, bool)
	// bound returns a mean latency that k super peers cannot beat, or the limit of the best
	// arrangement as nodes get dense; 0 if none is known.
	bound(k int, live []int32) float64
	// shape returns the extent of the map for drawing, 0 by 0 if there is none.
	shape() (w, h float64)
	// draw returns the slot's place on that map.
	draw(slot int32) (x, y float64)
}

// normal returns a standard normal number (Box and Muller, 1958).
func normal(r *superpeer.Draw) float64 {
	u := 1 - r.Unit()
	return math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*r.Unit())
}

// seeded returns a generator for purpose of seed, and for a single slot if that is part of it: a
// node's place depends only on its seed.
func seeded(seed, purpose, slot uint64) superpeer.Draw {
	return superpeer.Draw(superpeer.Mix(superpeer.Mix(superpeer.Mix(seed+1)+purpose) + slot))
}
