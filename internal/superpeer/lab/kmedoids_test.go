package lab

import (
	"math"
	"slices"
)

// medoids is k-medoids with full knowledge: swaps of a center for another node
// while that lowers the sum of all ways (FasterPAM: Schubert and Rousseeuw,
// Information Systems 101, 2021). It is the reference for what can be reached;
// the problem is NP-hard, so it is a very good arrangement, not the best.
type medoids struct {
	s       space
	live    []int32
	centers []int32
	isNear  bool      // the triangle inequality holds: far cells can be passed over
	first   []int32   // nearest center by node, as a number in centers
	second  []int32   // second nearest
	d1, d2  []float32 // how far those are
	loss    []float64 // by center: what its removal would cost
	tried   []float64 // by node: the gain when last judged
	cells   [][]int32 // by center: its nodes
	reach   []float32 // by center: the largest d1+d2 of its nodes
}

// medoidLimit is the number of nodes above which k-medoids takes too long.
const medoidLimit = 50_000

// medoidPasses over all nodes are enough in practice; it mostly ends by itself.
const medoidPasses = 12

func kmedoids(s space, live []int32, start []int32) []int32 {
	m := newMedoids(s, live, start)
	all := make([]int32, len(live))
	for i := range all {
		all[i] = int32(i)
	}
	for range medoidPasses {
		if !m.pass(all) {
			break
		}
		if !m.isNear {
			all = m.promising()
		}
	}
	return m.centers
}

// promising is the quarter of the nodes that came closest to a gain. Where every
// round trip counts, the later passes try only these.
func (m *medoids) promising() []int32 {
	sorted := slices.Sorted(slices.Values(m.tried))
	low := sorted[len(sorted)*3/4]
	var list []int32
	for i, g := range m.tried {
		if g >= low {
			list = append(list, int32(i))
		}
	}
	return list
}

func newMedoids(s space, live, start []int32) *medoids {
	m := &medoids{
		s: s, live: live, centers: append([]int32(nil), start...), isNear: s.metric().Exact,
		first: make([]int32, len(live)), second: make([]int32, len(live)),
		d1: make([]float32, len(live)), d2: make([]float32, len(live)), tried: make([]float64, len(live)),
	}
	parallel(len(live), func(i int) { m.rank(i) })
	m.regroup()
	return m
}

// rank finds the two centers nearest to node i.
func (m *medoids) rank(i int) {
	m.d1[i], m.d2[i] = math.MaxFloat32, math.MaxFloat32
	m.first[i], m.second[i] = -1, -1
	for c, slot := range m.centers {
		m.offer(i, int32(c), m.s.rtt(m.live[i], slot))
	}
}

func (m *medoids) offer(i int, c int32, d float32) {
	switch {
	case d < m.d1[i]:
		m.second[i], m.d2[i] = m.first[i], m.d1[i]
		m.first[i], m.d1[i] = c, d
	case d < m.d2[i]:
		m.second[i], m.d2[i] = c, d
	}
}

// regroup sorts the nodes by their center and sums up what follows from it.
func (m *medoids) regroup() {
	k := len(m.centers)
	m.loss, m.reach = make([]float64, k), make([]float32, k)
	if m.cells == nil {
		m.cells = make([][]int32, k)
	}
	for c := range m.cells {
		m.cells[c] = m.cells[c][:0]
	}
	for i, c := range m.first {
		m.cells[c] = append(m.cells[c], int32(i))
		m.loss[c] += float64(m.d2[i] - m.d1[i])
		m.reach[c] = max(m.reach[c], m.d1[i]+m.d2[i])
	}
}

// pass tries the given nodes once as centers and tells whether that gained
// anything. They are judged many at a time, and those that promise something once
// more, one by one, against what has changed meanwhile.
func (m *medoids) pass(nodes []int32) bool {
	const batch = 256
	total := 0.0
	for _, d := range m.d1 {
		total += float64(d)
	}
	least := total * 1e-5
	swapped := false
	for len(nodes) > 0 {
		now := nodes[:min(batch, len(nodes))]
		nodes = nodes[len(now):]
		parallel(len(now), func(i int) { _, m.tried[now[i]] = m.judge(now[i]) })
		for _, x := range now {
			if m.tried[x] <= least {
				continue
			}
			if c, gain := m.judge(x); gain > least {
				m.swap(c, m.live[x])
				swapped = true
			}
		}
	}
	return swapped
}

// judge finds the center that node x had best replace, and the gain.
func (m *medoids) judge(x int32) (center int, gain float64) {
	if m.d1[x] == 0 && m.centers[m.first[x]] == m.live[x] {
		return 0, 0
	}
	change := append(make([]float64, 0, len(m.loss)), m.loss...)
	shared := 0.0
	for c, cell := range m.cells {
		if m.isNear && m.s.rtt(m.live[x], m.centers[c]) >= m.reach[c] {
			continue
		}
		for _, i := range cell {
			d := m.s.rtt(m.live[x], m.live[i])
			if d < m.d1[i] {
				shared += float64(d - m.d1[i])
				change[c] += float64(m.d1[i] - m.d2[i])
			} else if d < m.d2[i] {
				change[c] += float64(d - m.d2[i])
			}
		}
	}
	for c := range change {
		if change[c] < change[center] {
			center = c
		}
	}
	return center, -shared - change[center]
}

func (m *medoids) swap(c int, slot int32) {
	m.centers[c] = slot
	parallelChunks(len(m.live), func(from, to int) {
		for i := from; i < to; i++ {
			if m.first[i] == int32(c) || m.second[i] == int32(c) {
				m.rank(i)
			} else {
				m.offer(i, int32(c), m.s.rtt(m.live[i], slot))
			}
		}
	})
	m.regroup()
}
