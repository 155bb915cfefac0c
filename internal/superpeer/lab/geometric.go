package lab

import (
	"math"
	"slices"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// side is the extent of the geometric spaces in milliseconds.
const side = 100

// geometric is a box or torus in two or three dimensions, filled evenly or in
// clusters. Nodes know their true positions.
type geometric struct {
	dims     int
	wraps    bool
	xs       []float32 // dims numbers per slot
	clusters []cluster // none: uniform
	seed     uint64
}

// cluster is a hill of the clustered space.
type cluster struct {
	x, y, sigma, share float64 // share is cumulative
}

// clusterCount hills hold 90 % of the nodes of the clustered space; the rest is anywhere.
const clusterCount = 30

func newGeometric(n, dims int, wraps bool, seed uint64) *geometric {
	g := &geometric{dims: dims, wraps: wraps, seed: seed, xs: make([]float32, n*dims)}
	g.fill(0)
	g.order()
	return g
}

func newClustered(n int, seed uint64) *geometric {
	g := &geometric{dims: 2, seed: seed, xs: make([]float32, n*2)}
	r := seeded(seed, 2, 0)
	total := 0.0
	for i := range clusterCount {
		// Sizes fall as 1/rank, as those of cities do (Zipf).
		total += 1 / float64(i+1)
		g.clusters = append(g.clusters, cluster{
			x: side * r.Unit(), y: side * r.Unit(), sigma: side * (0.01 + 0.03*r.Unit()), share: total,
		})
	}
	for i := range g.clusters {
		g.clusters[i].share *= 0.9 / total
	}
	g.fill(0)
	g.order()
	return g
}

func (g *geometric) fill(from int) {
	for s := from; s < g.size(); s++ {
		g.settle(int32(s), uint64(s))
	}
}

// order numbers the slots along a Z-curve (Morton, 1966). It only affects speed: nodes mostly
// communicate with near nodes, which then are near in memory.
func (g *geometric) order() {
	n := g.size()
	codes := make([]uint64, n)
	for s := range n {
		code := uint64(0)
		for d, x := range g.at(int32(s)) {
			cell := uint64(x / side * 1024)
			for bit := range 10 {
				code |= cell >> bit & 1 << (bit*g.dims + d)
			}
		}
		codes[s] = code<<32 | uint64(s)
	}
	slices.Sort(codes)
	old := slices.Clone(g.xs)
	for s, code := range codes {
		copy(g.at(int32(s)), old[int(uint32(code))*g.dims:])
	}
}

func (g *geometric) size() int { return len(g.xs) / g.dims }

func (g *geometric) at(slot int32) []float32 {
	return g.xs[int(slot)*g.dims : int(slot+1)*g.dims]
}

func (g *geometric) settle(slot int32, seed uint64) {
	r := seeded(g.seed, 1, seed)
	p := g.at(slot)
	u := r.Unit()
	for _, c := range g.clusters {
		for u < c.share {
			x, y := c.x+c.sigma*normal(&r), c.y+c.sigma*normal(&r)
			if x >= 0 && x < side && y >= 0 && y < side {
				p[0], p[1] = float32(x), float32(y)
				return
			}
		}
	}
	for d := range p {
		p[d] = float32(side * r.Unit())
	}
}

func (g *geometric) grow(n int) int {
	from := g.size()
	g.xs = append(g.xs, make([]float32, n*g.dims)...)
	g.fill(from)
	return n
}

func (g *geometric) rtt(a, b int32) float32 {
	if g.dims == 2 && !g.wraps {
		x, y := g.xs[2*a]-g.xs[2*b], g.xs[2*a+1]-g.xs[2*b+1]
		return float32(math.Sqrt(float64(x*x + y*y)))
	}
	p, q := g.at(a), g.at(b)
	sum := float32(0)
	for d := range p {
		x := p[d] - q[d]
		if g.wraps {
			if x > side/2 {
				x -= side
			} else if x < -side/2 {
				x += side
			}
		}
		sum += x * x
	}
	return float32(math.Sqrt(float64(sum)))
}

func (g *geometric) metric() superpeer.Metric {
	m := superpeer.Metric{Dims: g.dims, Exact: true}
	if g.wraps {
		m.Period = side
	}
	return m
}

func (g *geometric) point(slot int32) (p superpeer.Position, ok bool) {
	copy(p.X[:], g.at(slot))
	return p, true
}

// Mean distance to the centre of a cell of unit volume: of the regular hexagon,
// which no partition of the plane beats (Fejes Tóth, Lagerungen in der Ebene, 1953),
// and of the ball, which no cell in space beats.
var (
	hexagonMean = (1.0/3 + math.Log(3)/4) * math.Sqrt(2/(3*math.Sqrt(3)))
	ballMean    = 0.75 * math.Cbrt(3/(4*math.Pi))
)

// bound returns the mean for k equal ideal cells. For the clustered space it is Zador's: the
// density f enters as (∫ f^(2/3))^(3/2) (IEEE Trans. IT 28, 1982), the integral as the mean of
// f^(-1/3) over the nodes.
func (g *geometric) bound(k int, live []int32) float64 {
	if k < 1 {
		return 0
	}
	if g.dims == 3 {
		return ballMean * side / math.Cbrt(float64(k))
	}
	flat := hexagonMean * side / math.Sqrt(float64(k))
	if g.clusters == nil || len(live) == 0 {
		return flat
	}
	sum := 0.0
	for _, s := range live {
		sum += math.Cbrt(1 / g.density(s))
	}
	return flat * math.Pow(sum/float64(len(live)), 1.5)
}

// density returns the density at the slot, relative to the uniform space. It neglects the part of a
// hill outside the box.
func (g *geometric) density(slot int32) float64 {
	p := g.at(slot)
	f, before := 0.1, 0.0
	for _, c := range g.clusters {
		dx, dy := float64(p[0])-c.x, float64(p[1])-c.y
		f += (c.share - before) * side * side / (2 * math.Pi * c.sigma * c.sigma) *
			math.Exp(-(dx*dx+dy*dy)/(2*c.sigma*c.sigma))
		before = c.share
	}
	return f
}

func (g *geometric) shape() (w, h float64) { return side, side }

func (g *geometric) draw(slot int32) (x, y float64) {
	p := g.at(slot)
	return float64(p[0]), float64(p[1])
}
