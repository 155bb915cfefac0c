package superpeer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Method is how super peers are chosen.
type Method string

// The methods. All share attachment, leases and registrars.
const (
	Tokens      Method = "tokens"       // the refined protocol; default
	Textbook    Method = "textbook"     // the textbook repulsion, exactly
	Prefix      Method = "prefix"       // the k-bit rule: 2^k super peers
	PrefixExact Method = "prefix-exact" // N equal ranges of the identifier space
	Random      Method = "random"       // N random nodes that stay in place
)

// leastFraction is one super peer for ten million nodes.
const leastFraction = 1e-7

// ranged reports whether nodes are served by identifier instead of by distance.
func (m Method) ranged() bool { return m == Prefix || m == PrefixExact }

// Config is the same on every node of an overlay. The zero value of each field except Fraction and
// Router means its default.
type Config struct {
	Method   Method  // default Tokens
	Fraction float64 // ρ: the share of nodes that are super peers, 1e-7 to 1
	Capacity int     // C: the most nodes that a super peer serves, without itself; 0: no limit
	Metric   Metric  // default: 2 dimensions, no wrap
	Router   Router  // the DHT that finds a token's registrar

	Lease    Round   // rounds that a client's place is kept without renewal; default 10
	Renew    Round   // rounds between a client's renewals; default 4
	Gate     float64 // relative gain that a move of a token must promise; default 0.005, with a capacity 0.03
	JumpGate float64 // gain over loss that a jump must promise; default 1.3, with a capacity 2.5
	Warmup   Round   // rounds that a token stays before it may jump; default 6

	// Margin is how many milliseconds nearer a super peer must be for a served node to change to
	// it. Measured round trips differ by that much by chance. Default 1, or 0 with exact positions;
	// a negative value means 0.
	Margin float32
}

// Defaults returns c with its zero fields replaced.
func (c Config) Defaults() Config {
	c.Method = cmp.Or(c.Method, Tokens)
	c.Metric.Dims = cmp.Or(c.Metric.Dims, 2)
	c.Lease = cmp.Or(c.Lease, 10)
	c.Renew = cmp.Or(c.Renew, 4)
	if c.Gate == 0 {
		c.Gate = 0.005
		if c.Capacity > 0 {
			c.Gate = 0.03 // if places are scarce, every move unsettles many
		}
	}
	if c.JumpGate == 0 {
		c.JumpGate = 1.3
		if c.Capacity > 0 {
			c.JumpGate = 2.5 // for the same reason
		}
	}
	c.Warmup = cmp.Or(c.Warmup, 6)
	if c.Margin == 0 && !c.Metric.Exact {
		c.Margin = 1
	}
	return c
}

// margin returns Margin, or 0 if that is negative.
func (c *Config) margin() float32 { return max(0, c.Margin) }

// Validate returns every fault of c, or nil.
func (c Config) Validate() error {
	c = c.Defaults()
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	switch c.Method {
	case Tokens, Textbook, Prefix, PrefixExact, Random:
	default:
		fault("method %q: want tokens, textbook, prefix, prefix-exact or random", c.Method)
	}
	if math.IsNaN(float64(c.Margin)) || math.IsInf(float64(c.Margin), 0) {
		fault("margin %v: want a finite number of milliseconds", c.Margin)
	}
	if !(c.Fraction >= leastFraction && c.Fraction <= 1) {
		fault("fraction %v: want %v to 1", c.Fraction, leastFraction)
	}
	if c.Capacity < 0 {
		fault("capacity %d: want at least 1, or 0 for no limit", c.Capacity)
	}
	if c.Metric.Dims < 0 || c.Metric.Dims > MaxDims {
		fault("dimensions %d: want 1 to %d", c.Metric.Dims, MaxDims)
	}
	if c.Router == nil {
		fault("no router: give the DHT that finds a token's registrar")
	}
	if c.Renew < 1 || c.Lease < c.Renew+2 {
		fault("lease %d, renew %d: want a lease of at least renew+2 rounds", c.Lease, c.Renew)
	}
	return errors.Join(faults...)
}

// Wanted returns the number of super peers for n nodes: ⌈ρ·n⌉, at most n.
func (c *Config) Wanted(n int) int {
	// Without this tolerance, 0.01·10000 would result in 101.
	w := int(math.Ceil(c.Fraction*float64(n) - 1e-9))
	return max(0, min(w, n))
}

// Count returns the number of tokens for n nodes: [Config.Wanted], or the 2^k of the k-bit rule.
func (c *Config) Count(n int) int {
	w := c.Wanted(n)
	if c.Method == Prefix {
		return min(1<<PrefixBits(w), n)
	}
	return w
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
