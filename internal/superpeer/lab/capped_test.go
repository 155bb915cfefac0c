package lab

import (
	"math"
	"slices"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// assignLimit is how many nodes times super peers the exact assignment is given;
// beyond, nodes choose one after the other.
const assignLimit = 3_000_000

// assignCapped gives each live node a center so that none serves more than
// capacity others and the sum of all ways is least; a center is its own and
// counts for nothing. Nodes that find no place have -1.
func assignCapped(s space, live, centers []int32, capacity int) []int32 {
	to := make([]int32, len(live))
	index := make(map[int32]int32, len(centers))
	for c, slot := range centers {
		index[slot] = int32(c)
	}
	var nodes []int32 // numbers in live
	for i, slot := range live {
		to[i] = -1
		if c, ok := index[slot]; ok {
			to[i] = c
		} else {
			nodes = append(nodes, int32(i))
		}
	}
	if len(nodes)*len(centers) > assignLimit {
		takeTurns(s, live, centers, nodes, capacity, to)
		return to
	}
	a := newAssignment(s, live, centers, nodes, capacity)
	for v := range nodes {
		if !a.insert(int32(v)) {
			break
		}
	}
	for v, i := range nodes {
		to[i] = a.at[v]
	}
	return to
}

// assignment solves the transportation problem by successive shortest paths
// (Ahuja, Magnanti, Orlin, Network Flows, 1993, section 9.7) on a graph of the
// centers alone: the way from center a to b is the least extra cost of sending
// one of a's nodes on to b.
type assignment struct {
	k, capacity int
	cost        []float32 // node by center
	at          []int32   // center by node; -1: none yet
	load        []int
	members     [][]int32
	shift       []float32 // cheapest extra cost by pair of centers
	mover       []int32   // the node that it is for
}

func newAssignment(s space, live, centers, nodes []int32, capacity int) *assignment {
	k := len(centers)
	a := &assignment{
		k: k, capacity: capacity, cost: make([]float32, len(nodes)*k), at: make([]int32, len(nodes)),
		load: make([]int, k), members: make([][]int32, k), shift: make([]float32, k*k), mover: make([]int32, k*k),
	}
	parallel(len(nodes), func(v int) {
		a.at[v] = -1
		for c, slot := range centers {
			a.cost[v*k+c] = s.rtt(live[nodes[v]], slot)
		}
	})
	for c := range centers {
		a.refresh(int32(c))
	}
	return a
}

// refresh finds anew what center c can send on.
func (a *assignment) refresh(c int32) {
	row, mover := a.shift[int(c)*a.k:int(c+1)*a.k], a.mover[int(c)*a.k:int(c+1)*a.k]
	for b := range row {
		row[b] = math.MaxFloat32
	}
	for _, v := range a.members[c] {
		own := a.cost[int(v)*a.k+int(c)]
		for b := range row {
			if d := a.cost[int(v)*a.k+b] - own; d < row[b] {
				row[b], mover[b] = d, v
			}
		}
	}
}

// insert gives node v a place at the least extra cost, moving others if needed.
func (a *assignment) insert(v int32) bool {
	dist := append([]float32(nil), a.cost[int(v)*a.k:int(v+1)*a.k]...)
	from := make([]int32, a.k)
	for c := range from {
		from[c] = -1
	}
	nearest := slices.Index(dist, slices.Min(dist))
	if a.load[nearest] < a.capacity {
		a.put(v, int32(nearest))
		a.refresh(int32(nearest))
		return true
	}
	for changed, rounds := true, 0; changed && rounds < a.k; rounds++ {
		changed = false
		for c := range a.k {
			if a.load[c] < a.capacity {
				continue // whoever gets there stays
			}
			for b, w := range a.shift[c*a.k : (c+1)*a.k] {
				if w != math.MaxFloat32 && dist[c]+w < dist[b]-1e-4 && !leadsTo(from, int32(b), int32(c)) {
					dist[b], from[b], changed = dist[c]+w, int32(c), true
				}
			}
		}
	}
	end := int32(-1)
	for c := range a.k {
		if a.load[c] < a.capacity && (end < 0 || dist[c] < dist[end]) {
			end = int32(c)
		}
	}
	if end < 0 {
		return false
	}
	a.shiftAlong(v, end, from)
	return true
}

// leadsTo tells whether the way to c passes through b. Rounding can make a circle
// look like a gain; a way must not have one.
func leadsTo(from []int32, b, c int32) bool {
	for ; c >= 0; c = from[c] {
		if c == b {
			return true
		}
	}
	return false
}

func (a *assignment) shiftAlong(v, end int32, from []int32) {
	touched := []int32{end}
	for c := end; from[c] >= 0; {
		p := from[c]
		u := a.mover[int(p)*a.k+int(c)]
		i := slices.Index(a.members[p], u)
		a.members[p] = slices.Delete(a.members[p], i, i+1)
		a.load[p]--
		a.put(u, c)
		touched = append(touched, p)
		c = p
	}
	a.put(v, touched[len(touched)-1])
	for _, c := range touched {
		a.refresh(c)
	}
}

func (a *assignment) put(v, c int32) {
	a.at[v] = c
	a.members[c] = append(a.members[c], v)
	a.load[c]++
}

// takeTurns lets each node take the nearest center that still has room.
func takeTurns(s space, live, centers, nodes []int32, capacity int, to []int32) {
	load := make([]int, len(centers))
	for _, i := range nodes {
		best := float32(math.MaxFloat32)
		for c, slot := range centers {
			if load[c] >= capacity {
				continue
			}
			if d := s.rtt(live[i], slot); d < best {
				best, to[i] = d, int32(c)
			}
		}
		if to[i] >= 0 {
			load[to[i]]++
		}
	}
}

// cappedStarts are from how many random choices, beside k-medoids, the capacitated
// reference starts; the best is taken. cappedCheap bounds nodes times super peers
// up to which there is time for them.
const (
	cappedStarts = 8
	cappedCheap  = 200_000
)

// cappedReference is the best arrangement under a cap that is found with full
// knowledge.
func cappedReference(s space, live, medoids []int32, capacity int, seed uint64) []int32 {
	best, low := cappedMedoids(s, live, medoids, capacity)
	if len(live)*len(medoids) > cappedCheap {
		return best
	}
	for i := range cappedStarts {
		start := randomCenters(live, len(medoids), superpeer.Mix(seed)+uint64(i))
		if c, sum := cappedMedoids(s, live, start, capacity); sum < low {
			best, low = c, sum
		}
	}
	return best
}

// cappedRounds of assignment and descent settle the capacitated reference.
const cappedRounds = 20

// cappedMedoids starts from k-medoids, assigns as capacity allows, moves each
// center to the node that serves its own best, and so on while that helps.
func cappedMedoids(s space, live, centers []int32, capacity int) (best []int32, low float64) {
	low = math.Inf(1)
	now := append([]int32(nil), centers...)
	for range cappedRounds {
		to := assignCapped(s, live, now, capacity)
		cells := make([][]int32, len(now))
		sum := 0.0
		for i, c := range to {
			if c >= 0 {
				cells[c] = append(cells[c], live[i])
				sum += float64(s.rtt(live[i], now[c]))
			}
		}
		if sum >= low*(1-1e-4) {
			break
		}
		low, best = sum, now
		next := make([]int32, len(now))
		parallel(len(now), func(c int) { next[c] = medoid(s, cells[c], now[c]) })
		now = next
	}
	return best, low
}

// medoid is the member of cell with the least sum of ways to the others.
func medoid(s space, cell []int32, center int32) int32 {
	best, low := center, math.Inf(1)
	for _, x := range cell {
		sum := 0.0
		for _, y := range cell {
			sum += float64(s.rtt(x, y))
		}
		if sum < low {
			best, low = x, sum
		}
	}
	return best
}
