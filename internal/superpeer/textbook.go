package superpeer

// The repulsion of docs/sources.md, "Coordinator", exactly: tokens repel each other, gossip spreads
// the forces, and a node with a total force above a limit passes its token on in the direction of
// that force. The source does not define the force; this definition was found to settle:
//
//	F = Σ 2·(1 − d/R)₊ over the near tokens, R the distance to the (2D+3)-th
//	step = 0.3·a·min(1, |F|), a the mean distance to the four nearest
//
// It considers space, not the density of nodes: dense areas get no more tokens than the rest.
const (
	forceLimit    = 0.4      // |F| up to which a token stays
	forceStep     = 0.3      // of a
	forceCooldown = Round(5) // rounds a token stays at least; with fewer it oscillates
)

// repel moves the token if the force on it is too large.
func (h *holder) repel(s *self, now Round, out *Actions) {
	if h.phase != resting || now < h.since+forceCooldown {
		return
	}
	force, mean, ok := h.force(s)
	strength := length(force)
	if !ok || strength <= forceLimit {
		return
	}
	goal := s.at
	for d := range s.cfg.Metric.Dims {
		goal.X[d] += force[d] / strength * forceStep * mean * min(1, strength)
	}
	goal.Height = 0
	away := func(l *Lease) float32 { return length(s.cfg.Metric.Offset(&goal, &l.At)) }
	i := h.leases.least(nil, away)
	if i < 0 || away(&h.leases[i]) >= length(s.cfg.Metric.Offset(&goal, &s.at)) {
		return // no client lies further in that direction
	}
	h.handing = append(make([]Lease, 0, len(h.leases)+1), h.leases...)
	for k := range h.handing {
		h.handing[k].RTT = -1 // textbook tokens do not measure; their clients do
	}
	h.offer(s, now, h.leases[i].Peer, out)
}

// force returns the sum of the near tokens' forces, and the mean distance to the four nearest. ok
// is false while too few are known.
func (h *holder) force(s *self) (f [MaxDims]float32, mean float32, ok bool) {
	m := s.cfg.Metric
	reach := 2*m.Dims + 3
	var offsets [2*MaxDims + 3][MaxDims]float32
	var dists [2*MaxDims + 3]float32
	k := 0
	for i := range h.seen {
		if a := &h.seen[i]; a.Holder != s.peer && a.Token != h.token && k < reach {
			offsets[k] = m.Offset(&a.At, &s.at)
			dists[k] = length(offsets[k])
			k++
		}
	}
	if k < 4 {
		return f, 0, false
	}
	far := max(dists[k-1], 1e-6)
	for i := range k {
		push := 2 * max(0, 1-dists[i]/far)
		for d := range m.Dims {
			f[d] += push * offsets[i][d] / max(dists[i], 1e-6)
		}
		if i < 4 {
			mean += dists[i] / 4
		}
	}
	return f, mean, true
}
