package lab

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// chosen judges super peers picked with full knowledge: everyone goes to the
// nearest, or where there is a cap, is assigned as capacity allows.
func chosen(s space, live, centers []int32, capacity int) Figures {
	var to []int32
	if capacity > 0 {
		to = assignCapped(s, live, centers, capacity)
	} else {
		to = nearestCenters(s, live, centers)
	}
	lats := make([]float32, 0, len(live))
	loads := make([]int, len(centers))
	for i, c := range to {
		if c < 0 || centers[c] == live[i] {
			continue
		}
		lats = append(lats, s.rtt(live[i], centers[c]))
		loads[c]++
	}
	return figures(lats, loads, len(live)-len(centers))
}

// nearestCenters finds for each live node the number of its nearest center; a
// center is its own.
func nearestCenters(s space, live, centers []int32) []int32 {
	to := make([]int32, len(live))
	if s.metric().Exact {
		at := make([]superpeer.Position, len(centers))
		for i, c := range centers {
			at[i], _ = s.point(c)
		}
		var g grid
		g.build(s.metric(), at)
		parallelChunks(len(live), func(from, to2 int) {
			var hits []hit
			for i := from; i < to2; i++ {
				p, _ := s.point(live[i])
				hits = g.nearest(&p, 1, math.MaxInt32, nil, hits[:0])
				to[i] = hits[0].item
			}
		})
	} else {
		parallel(len(live), func(i int) {
			best := float32(math.MaxFloat32)
			for c := range centers {
				if d := s.rtt(live[i], centers[c]); d < best {
					best, to[i] = d, int32(c)
				}
			}
		})
	}
	index := make(map[int32]int32, len(centers))
	for c, slot := range centers {
		index[slot] = int32(c)
	}
	for i, slot := range live {
		if c, ok := index[slot]; ok {
			to[i] = c
		}
	}
	return to
}

// parallelChunks is parallel for work that is cheap by item and wants scratch
// memory: f gets ranges.
func parallelChunks(n int, f func(from, to int)) {
	const size = 4096
	parallel((n+size-1)/size, func(i int) { f(i*size, min(n, (i+1)*size)) })
}

// randomCenters picks k of live.
func randomCenters(live []int32, k int, seed uint64) []int32 {
	r := seeded(seed, 4, 0)
	pool := append([]int32(nil), live...)
	for i := range k {
		j := i + r.Below(len(pool)-i)
		pool[i], pool[j] = pool[j], pool[i]
	}
	return pool[:k:k]
}

// kcenterLimit is how many round trips greedy k-center may cost where there is
// no geometry to spare most of them.
const kcenterLimit = 2_000_000_000

// kcenter picks k of live greedily: always the node farthest from those picked
// (Gonzalez, Theoretical Computer Science 38, 1985). It is nil where that is too
// expensive.
func kcenter(s space, live []int32, k int, seed uint64) []int32 {
	r := seeded(seed, 5, 0)
	first := live[r.Below(len(live))]
	if s.metric().Exact {
		return newFarthest(s, live).pick(first, k)
	}
	if len(live)*k > kcenterLimit {
		return nil
	}
	gap := make([]float32, len(live))
	for i := range gap {
		gap[i] = math.MaxFloat32
	}
	centers := []int32{first}
	for {
		c, far := centers[len(centers)-1], 0
		for i, slot := range live {
			gap[i] = min(gap[i], s.rtt(slot, c))
			if slot == c {
				gap[i] = -1
			}
			if gap[i] > gap[far] {
				far = i
			}
		}
		if len(centers) == k {
			return centers
		}
		centers = append(centers, live[far])
	}
}

// farthest finds the node farthest from all centers in a geometric space: nodes
// lie in the cells of a grid, a tournament over the cells knows the farthest,
// and a new center touches only the cells within the present covering radius.
type farthest struct {
	s    space
	live []int32
	grid grid
	gap  []float32 // by number in live
	tree []int32   // tournament: number in live, leaves are cells; -1: none
	half int
}

func newFarthest(s space, live []int32) *farthest {
	f := &farthest{s: s, live: live, gap: make([]float32, len(live))}
	at := make([]superpeer.Position, len(live))
	for i, slot := range live {
		at[i], _ = s.point(slot)
		f.gap[i] = math.MaxFloat32
	}
	f.grid.build(s.metric(), at)
	for f.half = 1; f.half < len(f.grid.start)-1; f.half *= 2 {
	}
	f.tree = make([]int32, 2*f.half)
	for i := range f.tree {
		f.tree[i] = -1
	}
	return f
}

func (f *farthest) pick(first int32, k int) []int32 {
	centers := []int32{first}
	f.add(first, math.MaxFloat32)
	for len(centers) < k {
		far := f.tree[1]
		centers = append(centers, f.live[far])
		f.add(f.live[far], f.gap[far])
	}
	return centers
}

// add notes a center; radius is how far the farthest node was.
func (f *farthest) add(center int32, radius float32) {
	p, _ := f.s.point(center)
	g := &f.grid
	rings := g.cells
	if r := radius/g.width + 1; r < float32(rings) {
		rings = int(r)
	}
	var lo, hi [3]int
	for d := range 3 {
		if d >= g.dims {
			continue
		}
		c := g.axis(p.X[d])
		lo[d], hi[d] = c-rings, c+rings
		if !g.wraps || 2*rings+1 >= g.cells {
			lo[d], hi[d] = max(0, c-rings), min(g.cells-1, c+rings)
		}
		if g.wraps && 2*rings+1 >= g.cells {
			lo[d], hi[d] = 0, g.cells-1
		}
	}
	for x := lo[0]; x <= hi[0]; x++ {
		for y := lo[1]; y <= hi[1]; y++ {
			for z := lo[2]; z <= hi[2]; z++ {
				if cell, ok := g.cell(x, y, z); ok {
					f.update(cell, center)
				}
			}
		}
	}
}

func (f *farthest) update(cell int, center int32) {
	best := int32(-1)
	for _, i := range f.grid.items[f.grid.start[cell]:f.grid.start[cell+1]] {
		f.gap[i] = min(f.gap[i], f.s.rtt(f.live[i], center))
		if f.live[i] == center {
			f.gap[i] = -1
		}
		if best < 0 || f.gap[i] > f.gap[best] {
			best = i
		}
	}
	if best < 0 {
		return
	}
	n := f.half + cell
	f.tree[n] = best
	for n /= 2; n > 0; n /= 2 {
		a, b := f.tree[2*n], f.tree[2*n+1]
		if a < 0 || b >= 0 && f.gap[b] > f.gap[a] {
			a = b
		}
		f.tree[n] = a
	}
}
