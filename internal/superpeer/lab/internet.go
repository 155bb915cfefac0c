package lab

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// internet puts nodes around real cities. A round trip is the time of light in glass along the
// great circle, multiplied by the detour of the two cities' networks, plus both access links. No
// node knows a true position; nodes estimate coordinates.
type internet struct {
	seed   uint64
	cities []city
	share  []float64 // cumulative
	detour []float32 // by pair of cities
	city   []uint8   // by slot
	xyz    []float32 // unit vector, three numbers per slot
	access []float32 // milliseconds
}

const (
	earthRadius = 6371.0 // km
	glassSpeed  = 100.0  // km of distance per millisecond of round trip
	citySpread  = 25.0   // km, standard deviation of a node's distance in each direction
)

// access links: their share of the nodes, the median of their delay in
// milliseconds and the standard deviation of its logarithm.
type link struct{ share, median, sigma float64 }

func links() []link {
	return []link{
		{0.10, 0.5, 0.5},  // server rooms
		{0.35, 3, 0.4},    // fibre to the home
		{0.30, 9, 0.4},    // cable
		{0.15, 20, 0.4},   // telephone lines
		{0.101, 35, 0.45}, // mobile; the last share catches rounding
	}
}

func newInternet(n int, seed uint64) *internet {
	w := &internet{seed: seed, cities: cities()}
	total := 0.0
	for _, c := range w.cities {
		total += c.weight
		w.share = append(w.share, total)
	}
	for i := range w.share {
		w.share[i] /= total
	}
	w.detours()
	w.grow(n)
	return w
}

// detours draws how much longer than the great circle the route between two cities is: rarely less
// than a quarter, sometimes three times.
func (w *internet) detours() {
	k := len(w.cities)
	w.detour = make([]float32, k*k)
	r := seeded(w.seed, 8, 0)
	for a := range k {
		for b := range a + 1 {
			d := float32(1.25 + 0.5*math.Exp(0.8*normal(&r)))
			w.detour[a*k+b], w.detour[b*k+a] = min(d, 4), min(d, 4)
		}
	}
}

func (w *internet) size() int { return len(w.city) }

func (w *internet) grow(n int) int {
	from := w.size()
	w.city = append(w.city, make([]uint8, n)...)
	w.xyz = append(w.xyz, make([]float32, 3*n)...)
	w.access = append(w.access, make([]float32, n)...)
	for s := from; s < w.size(); s++ {
		w.settle(int32(s), uint64(s))
	}
	return n
}

func (w *internet) settle(slot int32, seed uint64) {
	r := seeded(w.seed, 9, seed)
	u, c := r.Unit(), 0
	for c < len(w.share)-1 && u >= w.share[c] {
		c++
	}
	w.city[slot] = uint8(c)
	rad := math.Pi / 180
	lat := w.cities[c].lat*rad + normal(&r)*citySpread/earthRadius
	lon := w.cities[c].lon*rad + normal(&r)*citySpread/earthRadius/math.Cos(lat)
	p := w.xyz[3*slot : 3*slot+3]
	p[0] = float32(math.Cos(lat) * math.Cos(lon))
	p[1] = float32(math.Cos(lat) * math.Sin(lon))
	p[2] = float32(math.Sin(lat))
	w.access[slot] = float32(drawLink(&r))
}

func drawLink(r *superpeer.Draw) float64 {
	u, sum := r.Unit(), 0.0
	for _, l := range links() {
		if sum += l.share; u < sum {
			return l.median * math.Exp(l.sigma*normal(r))
		}
	}
	return 0
}

func (w *internet) rtt(a, b int32) float32 {
	if a == b {
		return 0
	}
	p, q := w.xyz[3*a:3*a+3], w.xyz[3*b:3*b+3]
	dx, dy, dz := p[0]-q[0], p[1]-q[1], p[2]-q[2]
	chord := math.Sqrt(float64(dx*dx + dy*dy + dz*dz))
	arc := chord // equal within 0.1 % below 1,000 km
	if chord > 0.15 {
		arc = 2 * math.Asin(min(1, chord/2))
	}
	detour := w.detour[int(w.city[a])*len(w.cities)+int(w.city[b])]
	return float32(arc*earthRadius/glassSpeed)*detour + w.access[a] + w.access[b]
}

func (w *internet) metric() superpeer.Metric               { return superpeer.Metric{Dims: superpeer.MaxDims} }
func (w *internet) point(int32) (superpeer.Position, bool) { return superpeer.Position{}, false }
func (w *internet) bound(k int, live []int32) float64      { return nearestBound(w, k, live) }
func (w *internet) shape() (width, height float64)         { return 360, 150 }

// draw returns the plate carrée projection, from 85° north to 65° south.
func (w *internet) draw(slot int32) (x, y float64) {
	p := w.xyz[3*slot : 3*slot+3]
	lat := math.Asin(float64(max(-1, min(1, p[2])))) * 180 / math.Pi
	lon := math.Atan2(float64(p[1]), float64(p[0])) * 180 / math.Pi
	return lon + 180, 85 - lat
}
