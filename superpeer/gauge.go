package superpeer

import "slices"

// gauge is the estimated number of nodes, on a member of the core. The sum of the super peers'
// loads fluctuates while clients move, and counts some twice while a super peer is dying. So the
// number stays until three quarters of the recent sums lie on the same side of it.
type gauge struct {
	n    int
	sums []int // recent sums, the oldest first
}

// A rise by a quarter is accepted after haste rounds: a growing overlay cannot wait.
const (
	haste     = 4
	hasteRise = 4 // denominator of the fraction
)

// take returns the number after a further sum, with a window of that many rounds.
func (g *gauge) take(sum, window int) int {
	g.sums = append(g.sums, sum)
	if surplus := len(g.sums) - window; surplus > 0 {
		g.sums = slices.Delete(g.sums, 0, surplus)
	}
	if k := len(g.sums); k >= window/2 { // tokens move: few nodes stay in the core for long
		sorted := slices.Sorted(slices.Values(g.sums))
		g.n = min(max(g.n, sorted[k/4]), sorted[k-1-k/4])
	}
	if k := len(g.sums) - haste; k >= 0 {
		if low := slices.Min(g.sums[k:]); low > g.n && (low-g.n)*hasteRise >= g.n {
			g.n = low
		}
	}
	return g.n
}
