package superpeer

import "slices"

// gauge is how many nodes a member of the core believes there to be. What the super peers say they
// serve wavers while clients change hands and counts some twice while a super peer is dying,
// so the number stays until three quarters of what was summed up of late lie on one side of it.
type gauge struct {
	n    int
	sums []int // of late, the oldest first
}

// A rise by a quarter is believed after haste rounds: an overlay that grows cannot wait.
const (
	haste     = 4
	hasteRise = 4 // of the number, its part
)

// take is the number after one more sum, the window being so many rounds long.
func (g *gauge) take(sum, window int) int {
	g.sums = append(g.sums, sum)
	if surplus := len(g.sums) - window; surplus > 0 {
		g.sums = slices.Delete(g.sums, 0, surplus)
	}
	if k := len(g.sums); k >= window/2 { // tokens move: few are in the core for long
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
