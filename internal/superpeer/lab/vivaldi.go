package lab

import (
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/coordinate"
)

// vivaldiRounds is how many measurements a node has made before the lab's first round, and
// vivaldiPeers with how many nodes.
const (
	vivaldiRounds = 64
	vivaldiPeers  = 16
)

// locate computes all coordinates if the space has no true positions: nodes measure a few nodes
// repeatedly, as gossip lets them meet.
func (w *world) locate() {
	if w.cfg.Metric.Exact {
		return
	}
	n := len(w.nodes)
	w.placed = make([]superpeer.Position, n)
	est := make([]*coordinate.Estimator, n)
	said := make([]coordinate.Coordinate, n) // as of the last round
	for i := range est {
		est[i] = coordinate.New(superpeer.Mix(w.seed) + uint64(i))
		said[i] = est[i].Coordinate()
	}
	for r := range vivaldiRounds {
		parallel(n, func(i int) { w.meet(est[i], i, r, said) })
		parallel(n, func(i int) { said[i] = est[i].Coordinate() })
	}
	for i := range said {
		w.placed[i] = said[i].Position()
	}
	w.said = said
}

// relocate puts new nodes into the given slots; they measure existing nodes.
func (w *world) relocate(slots []int32, r *superpeer.Draw) {
	for _, s := range slots {
		w.space.settle(s, r.Next())
	}
	if w.cfg.Metric.Exact {
		return
	}
	if grown := len(w.nodes) - len(w.said); grown > 0 {
		w.said = append(w.said, make([]coordinate.Coordinate, grown)...)
		w.placed = append(w.placed, make([]superpeer.Position, grown)...)
	}
	known := w.live()
	seed := r.Next()
	fresh := make([]coordinate.Coordinate, len(slots))
	parallel(len(slots), func(i int) {
		e := coordinate.New(superpeer.Mix(seed) + uint64(i))
		r := seeded(seed, 10, uint64(i))
		for range vivaldiRounds {
			w.measure(e, slots[i], known[r.Below(len(known))], w.said)
		}
		fresh[i] = e.Coordinate()
	})
	for i, s := range slots {
		w.said[s], w.placed[s] = fresh[i], fresh[i].Position()
	}
}

// meet performs a measurement of node i.
func (w *world) meet(e *coordinate.Estimator, i, round int, said []coordinate.Coordinate) {
	r := seeded(w.seed, 6, uint64(i*vivaldiPeers+round%vivaldiPeers))
	j := r.Below(len(said))
	if j == i {
		return
	}
	w.measure(e, int32(i), int32(j), said)
}

func (w *world) measure(e *coordinate.Estimator, a, b int32, said []coordinate.Coordinate) {
	rtt := time.Duration(float64(w.space.rtt(a, b)) * float64(time.Millisecond))
	// An impossible value is refused; the node keeps its position.
	_ = e.Update(strconv.Itoa(int(b)), said[b], rtt)
}

// position returns the estimated position of the node in slot.
func (w *world) position(slot int32) superpeer.Position {
	if p, ok := w.space.point(slot); ok {
		return p
	}
	return w.placed[slot]
}
