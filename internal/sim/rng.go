package sim

import (
	"math/rand/v2"
	"time"

	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// rng draws from a PCG, whose sequence is fixed by its definition, with its own reduction. So no
// later release of Go can change what a seed means.
type rng struct{ pcg rand.PCG }

func (c *rng) seed(s uint64) { c.pcg.Seed(s, 0x9e3779b97f4a7c15) }

// below returns 0 … n−1; n is far below 2^32, so the bias does not matter.
func (c *rng) below(n int) int {
	if n <= 1 {
		return 0
	}
	return int(c.pcg.Uint64() >> 32 * uint64(n) >> 32)
}

func (c *rng) in(s scenario.Span) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(c.pcg.Uint64()%uint64(s.Max-s.Min+1))
}

// one returns true once in n draws.
func (c *rng) one(n int) bool { return c.below(n) == 0 }
