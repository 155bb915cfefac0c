package lab

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// gossipDelay is how many rounds an announcement takes to reach nearby nodes, and gossipMemory how
// long it is valid without a repetition.
const (
	gossipDelay  = 2
	gossipMemory = 6
)

// gossip simulates the epidemic that spreads announcements: a node can learn what is near it a few
// rounds late, and a random sample, but never the whole.
type gossip struct {
	metric  superpeer.Metric
	latest  []heard // by token
	past    [gossipDelay][]superpeer.Announcement
	visible []superpeer.Announcement
	at      []superpeer.Position
	roomy   []int32 // of visible: those with places left
	index   grid
}

type heard struct {
	superpeer.Announcement
	round superpeer.Round
	known bool
}

// tell records the holders' announcements of this round.
func (g *gossip) tell(round superpeer.Round, list []superpeer.Announcement) {
	for _, a := range list {
		for int(a.Token) >= len(g.latest) {
			g.latest = append(g.latest, heard{})
		}
		h := &g.latest[a.Token]
		if !h.known || a.Version > h.Version || a.Version == h.Version && (a.Holder == h.Holder || h.round < round) {
			*h = heard{a, round, true}
		}
	}
}

// spread ends the round: announcements of gossipDelay rounds ago become visible.
func (g *gossip) spread(round superpeer.Round) {
	oldest := g.past[gossipDelay-1]
	copy(g.past[1:], g.past[:])
	g.past[0] = g.visible[:0]
	for i := range g.latest {
		if h := &g.latest[i]; h.known && round-h.round <= gossipMemory {
			g.past[0] = append(g.past[0], h.Announcement)
		}
	}
	g.visible = oldest
	g.at, g.roomy = g.at[:0], g.roomy[:0]
	for i := range g.visible {
		g.at = append(g.at, g.visible[i].At)
		if g.visible[i].Spare > 0 {
			g.roomy = append(g.roomy, int32(i))
		}
	}
	if g.metric.Exact {
		g.index.build(g.metric, g.at)
	}
}

// hear appends the answer to q to list. hits is scratch memory, returned for reuse.
func (g *gossip) hear(q *superpeer.Query, list []superpeer.Announcement, hits []hit) ([]superpeer.Announcement, []hit) {
	hits = g.near(&q.At, q.Near, nil, hits[:0])
	if q.Spare > 0 && len(g.roomy) > 0 {
		hits = g.near(&q.At, q.Spare, func(i int32) bool { return g.visible[i].Spare > 0 }, hits)
	}
	for _, h := range hits {
		list = append(list, g.visible[h.item])
	}
	r := superpeer.Draw(q.Seed)
	if q.Spare > 0 && len(g.roomy) > 0 {
		for range 2 {
			list = append(list, g.visible[g.roomy[r.Below(len(g.roomy))]])
		}
	}
	for range q.Sample {
		if len(g.visible) > 0 {
			list = append(list, g.visible[r.Below(len(g.visible))])
		}
	}
	return list, hits
}

// roomRings is how far gossip searches for places before it returns random super peers with room.
const roomRings = 6

func (g *gossip) near(at *superpeer.Position, k int, keep func(int32) bool, hits []hit) []hit {
	if g.metric.Exact {
		rings := math.MaxInt32
		if keep != nil {
			rings = roomRings
		}
		return g.index.nearest(at, k, rings, keep, hits)
	}
	base := len(hits)
	for i := range g.visible {
		if keep == nil || keep(int32(i)) {
			hits = insertHit(hits, base, k, hit{int32(i), g.metric.Estimate(at, &g.at[i])})
		}
	}
	return hits
}
