package draw

import (
	"math/rand/v2"
	"time"

	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// An RNG draws from a PCG, a sequence that its definition fixes, with its own reduction. So no
// later release of Go can change what a seed means.
type RNG struct{ pcg rand.PCG }

// Seed begins the sequence of a seed.
func (c *RNG) Seed(s uint64) { c.pcg.Seed(s, 0x9e3779b97f4a7c15) }

// Uint64 returns any number.
func (c *RNG) Uint64() uint64 { return c.pcg.Uint64() }

// Below returns 0 … n−1; n is far below 2^32, so the bias does not matter.
func (c *RNG) Below(n int) int {
	if n <= 1 {
		return 0
	}
	return int(c.pcg.Uint64() >> 32 * uint64(n) >> 32)
}

// In returns a time within s.
func (c *RNG) In(s scenario.Span) time.Duration {
	if s.Max <= s.Min {
		return s.Min
	}
	return s.Min + time.Duration(c.pcg.Uint64()%uint64(s.Max-s.Min+1))
}

// One returns true once in n draws.
func (c *RNG) One(n int) bool { return c.Below(n) == 0 }
