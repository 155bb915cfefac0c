package lab

import (
	"math"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

func all(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

func TestGridFindsTheNearest(t *testing.T) {
	for name, s := range map[string]*geometric{
		"plane": newGeometric(500, 2, false, 1),
		"torus": newGeometric(500, 2, true, 2),
		"space": newGeometric(500, 3, false, 3),
		"few":   newGeometric(12, 2, true, 4),
	} {
		n := s.size()
		at := make([]superpeer.Position, n)
		for i := range at {
			at[i], _ = s.point(int32(i))
		}
		var g grid
		g.build(s.metric(), at)
		for i := range at {
			got := g.nearest(&at[i], 7, math.MaxInt32, func(k int32) bool { return k%3 != 0 }, nil)
			var want []hit
			for k := range at {
				if k%3 != 0 {
					want = insertHit(want, 0, 7, hit{int32(k), g.metric.Estimate(&at[i], &at[k])})
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: nearest to %d are %v, want %v", name, i, got, want)
			}
		}
	}
}

func TestGreedyKCenterTakesTheFarthest(t *testing.T) {
	for _, s := range []*geometric{newGeometric(400, 2, false, 1), newGeometric(400, 2, true, 1), newGeometric(400, 3, false, 1)} {
		live := all(400)
		centers := newFarthest(s, live).pick(5, 20)
		for i := 1; i < len(centers); i++ {
			gap := func(x int32) float32 {
				least := float32(math.MaxFloat32)
				for _, c := range centers[:i] {
					least = min(least, s.rtt(x, c))
				}
				return least
			}
			for _, x := range live {
				if gap(x) > gap(centers[i]) {
					t.Fatalf("center %d is %v from the others, but node %d is %v", i, gap(centers[i]), x, gap(x))
				}
			}
		}
	}
}

// No single swap of a center for another node may lower the sum.
func TestKMedoidsCannotBeSwappedBetter(t *testing.T) {
	s := newGeometric(120, 2, false, 7)
	live := all(120)
	cost := func(centers []int32) (sum float64) {
		for _, x := range live {
			least := float32(math.MaxFloat32)
			for _, c := range centers {
				least = min(least, s.rtt(x, c))
			}
			sum += float64(least)
		}
		return sum
	}
	centers := kmedoids(s, live, randomCenters(live, 6, 1))
	best := cost(centers)
	for i := range centers {
		for _, x := range live {
			other := slices.Clone(centers)
			other[i] = x
			if c := cost(other); c < best*(1-1e-4) {
				t.Fatalf("swapping center %d for node %d gives %v, less than %v", i, x, c, best)
			}
		}
	}
}

// On cases small enough to try everything the assignment is the best there is.
func TestCappedAssignmentIsOptimal(t *testing.T) {
	for seed := range uint64(20) {
		s := newGeometric(9, 2, false, seed)
		live, centers, capacity := all(9), []int32{0, 1, 2}, 2
		to := assignCapped(s, live, centers, capacity)
		got := 0.0
		for i := 3; i < 9; i++ {
			got += float64(s.rtt(int32(i), centers[to[i]]))
		}
		want := math.Inf(1)
		var try func(i int, load [3]int, sum float64)
		try = func(i int, load [3]int, sum float64) {
			if i == 9 {
				want = min(want, sum)
				return
			}
			for c := range load {
				if load[c] < capacity {
					load[c]++
					try(i+1, load, sum+float64(s.rtt(int32(i), centers[c])))
					load[c]--
				}
			}
		}
		try(3, [3]int{}, 0)
		if got > want+1e-3 {
			t.Errorf("seed %d: assigned for %v in all, the best is %v", seed, got, want)
		}
	}
}

func TestBoundsHold(t *testing.T) {
	if hexagonMean < 0.3771 || hexagonMean > 0.3773 {
		t.Errorf("mean distance to the centre of the unit hexagon: %v, want 0.3772", hexagonMean)
	}
	s := newInternet(300, 1)
	live := all(300)
	b := s.bound(10, live)
	if m := chosen(s, live, kmedoids(s, live, randomCenters(live, 10, 1)), 0); b <= 0 || m.Mean < b {
		t.Errorf("k-medoids reaches %v ms, below the bound of %v", m.Mean, b)
	}
}
