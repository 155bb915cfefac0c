package lab

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// grid finds the points nearest to a place in a box of the given side, in two or three dimensions,
// ring by ring.
type grid struct {
	dims   int
	wraps  bool
	cells  int // along each side
	width  float32
	start  []int32 // of each cell in items
	items  []int32
	at     []superpeer.Position // by item number
	metric superpeer.Metric
}

// hit is a point and its distance.
type hit struct {
	item int32
	dist float32
}

// build fills the grid with points, about two to a cell. It reuses the memory of the last build.
func (g *grid) build(m superpeer.Metric, at []superpeer.Position) {
	g.dims, g.wraps, g.metric, g.at = m.Dims, m.Period > 0, m, at
	g.cells = max(1, int(math.Pow(float64(len(at))/2, 1/float64(m.Dims))))
	g.width = side / float32(g.cells)
	total := 1
	for range m.Dims {
		total *= g.cells
	}
	g.start = append(g.start[:0], make([]int32, total+1)...)
	g.items = append(g.items[:0], make([]int32, len(at))...)
	for i := range at {
		g.start[g.cellOf(&at[i])+1]++
	}
	for c := range total {
		g.start[c+1] += g.start[c]
	}
	for i := len(at) - 1; i >= 0; i-- {
		c := g.cellOf(&at[i])
		g.start[c+1]--
		g.items[g.start[c+1]] = int32(i)
	}
	// Filling from the end has moved every start to the next cell.
	copy(g.start, g.start[1:])
	g.start[total] = int32(len(at))
}

func (g *grid) axis(x float32) int { return max(0, min(g.cells-1, int(x/g.width))) }

func (g *grid) cellOf(p *superpeer.Position) int {
	c := 0
	for d := range g.dims {
		c = c*g.cells + g.axis(p.X[d])
	}
	return c
}

// nearest appends to hits the k points nearest to p that keep accepts, nearest
// first; it looks no further than rings cells away.
func (g *grid) nearest(p *superpeer.Position, k, rings int, keep func(int32) bool, hits []hit) []hit {
	if len(g.items) == 0 || k <= 0 {
		return hits
	}
	base := len(hits)
	reach := g.cells
	if g.wraps {
		reach = g.cells/2 + 1
	}
	for r := 0; r <= min(reach, rings); r++ {
		if found := len(hits) - base; found == k && hits[len(hits)-1].dist <= float32(r-1)*g.width {
			break
		}
		hits = g.ring(p, r, k, base, keep, hits)
	}
	return hits
}

// ring collects the cells exactly r away from p's.
func (g *grid) ring(p *superpeer.Position, r, k, base int, keep func(int32) bool, hits []hit) []hit {
	var c [3]int
	for d := range g.dims {
		c[d] = g.axis(p.X[d])
	}
	span := 2*r + 1
	if g.wraps {
		span = min(span, g.cells) // around the torus a cell must not be counted twice
	}
	depth := 1
	if g.dims == 3 {
		depth = span
	}
	for k3 := range depth {
		for i := range span {
			step := 1
			inner := i > 0 && i < 2*r && (g.dims == 2 || k3 > 0 && k3 < 2*r)
			if inner && span == 2*r+1 {
				step = 2 * r // only the two ends lie on the ring
			}
			for j := 0; j < span; j += step {
				if cell, ok := g.cell(c[0]+i-r, c[1]+j-r, c[2]+k3-r); ok {
					hits = g.collect(p, cell, k, base, keep, hits)
				}
			}
		}
	}
	return hits
}

func (g *grid) cell(x, y, z int) (int, bool) {
	v := [3]int{x, y, z}
	cell := 0
	for d := range g.dims {
		if g.wraps {
			v[d] = ((v[d] % g.cells) + g.cells) % g.cells
		} else if v[d] < 0 || v[d] >= g.cells {
			return 0, false
		}
		cell = cell*g.cells + v[d]
	}
	return cell, true
}

func (g *grid) collect(p *superpeer.Position, cell, k, base int, keep func(int32) bool, hits []hit) []hit {
	for _, it := range g.items[g.start[cell]:g.start[cell+1]] {
		if keep != nil && !keep(it) {
			continue
		}
		hits = insertHit(hits, base, k, hit{it, g.metric.Estimate(p, &g.at[it])})
	}
	return hits
}

// insertHit inserts h into hits[base:], which is ordered and has at most k entries. Equal distances
// are ordered by item, so that the search order does not matter. It does not insert an item twice.
func insertHit(hits []hit, base, k int, h hit) []hit {
	i := len(hits)
	for i > base && (hits[i-1].dist > h.dist || hits[i-1].dist == h.dist && hits[i-1].item > h.item) {
		i--
	}
	if i > base && hits[i-1] == h {
		return hits
	}
	if i-base >= k {
		return hits
	}
	if len(hits)-base < k {
		hits = append(hits, hit{})
	}
	copy(hits[i+1:], hits[i:])
	hits[i] = h
	return hits
}
