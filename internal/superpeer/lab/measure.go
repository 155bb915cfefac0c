package lab

import (
	"math"
	"slices"

	"github.com/batuta-dev/batuta/internal/superpeer"
)

// Sample is what one round was like. Latencies are true round trips in
// milliseconds from the nodes that are served to their super peers.
type Sample struct {
	Round    int     `json:"round"`
	Nodes    int     `json:"nodes"`
	Wanted   int     `json:"wanted"`
	Live     int     `json:"live"` // nodes that hold a token
	Mean     float64 `json:"mean_latency"`
	LoadMax  int     `json:"load_max"`
	Over     int     `json:"over_capacity"` // super peers over capacity
	Unserved float64 `json:"unserved"`      // share of the ordinary nodes
	Moves    int     `json:"moves"`         // of tokens in this round
	Messages float64 `json:"messages_per_node"`
	measured bool    // Mean and Unserved are of this round
}

// Figures measure an arrangement by the four requirements of docs/sources.md, "Coordinator".
// Latencies are true round trips in milliseconds from ordinary nodes to their super peers.
type Figures struct {
	Mean     float64 `json:"mean_latency"`
	P95      float64 `json:"p95_latency"`
	Radius   float64 `json:"covering_radius"` // the longest round trip
	LoadMax  int     `json:"load_max"`        // nodes served by a single super peer
	LoadCV   float64 `json:"load_cv"`
	Jain     float64 `json:"jain"`
	Unserved float64 `json:"unserved"` // share of the ordinary nodes
}

func figures(lats []float32, loads []int, ordinary int) Figures {
	f := Figures{Mean: mean(lats), P95: percentile(lats, 95)}
	if len(lats) > 0 {
		f.Radius = float64(lats[len(lats)-1])
	}
	for _, l := range loads {
		f.LoadMax = max(f.LoadMax, l)
	}
	f.LoadCV, f.Jain = spread(loads)
	f.Unserved = 1 - float64(len(lats))/float64(max(ordinary, 1))
	return f
}

// outcome is the super peer of each node.
type outcome struct {
	holders []int32   // slots
	loads   []int     // by holder
	lats    []float32 // of the nodes served
	served  int
	radius  float32
}

// holders returns the slots that hold a token.
func (w *world) holders() []int32 {
	var list []int32
	for s := range w.nodes {
		if w.peerOf[s] != superpeer.None {
			if _, _, ok := w.nodes[s].Holding(); ok {
				list = append(list, int32(s))
			}
		}
	}
	return list
}

// look measures which nodes are served now: a node counts if it and its super peer agree on it and
// both live.
func (w *world) look(holders []int32, keep bool) (o outcome, sum float64) {
	type part struct {
		sum    float64
		served int
		radius float32
		lats   []float32
	}
	parts := make([]part, len(holders))
	o.holders, o.loads = holders, make([]int, len(holders))
	parallel(len(holders), func(i int) {
		s, p := holders[i], &parts[i]
		leases := w.nodes[s].Serving()
		o.loads[i] = len(leases)
		for k := range leases {
			c := w.slotOf[leases[k].Peer]
			if c < 0 || w.nodes[c].Home() != w.peerOf[s] {
				continue
			}
			l := w.space.rtt(c, s)
			p.sum += float64(l)
			p.served++
			p.radius = max(p.radius, l)
			if keep {
				p.lats = append(p.lats, l)
			}
		}
	})
	for i := range parts {
		sum += parts[i].sum
		o.served += parts[i].served
		o.radius = max(o.radius, parts[i].radius)
		o.lats = append(o.lats, parts[i].lats...)
	}
	return o, sum
}

// sampleRare is the number of nodes above which latencies are measured only every fifth round.
const sampleRare = 200_000

// sample measures the round just played.
func (w *world) sample(before *Sample, moves *moveCount) Sample {
	s := Sample{Round: int(w.round), Nodes: w.n, Wanted: w.cfg.Wanted(w.n)}
	holders := w.holders()
	s.Live = len(holders)
	for _, h := range holders {
		load := len(w.nodes[h].Serving())
		s.LoadMax = max(s.LoadMax, load)
		if w.cfg.Capacity > 0 && load > w.cfg.Capacity {
			s.Over++
		}
	}
	if before == nil || w.n <= sampleRare || w.round%5 == 0 {
		o, sum := w.look(holders, false)
		s.Mean, s.measured = sum/float64(max(o.served, 1)), true
		s.Unserved = 1 - float64(o.served)/float64(max(w.n-len(holders), 1))
	} else {
		s.Mean, s.Unserved = before.Mean, before.Unserved
	}
	s.Moves = moves.count(w, holders)
	sent := 0
	for i := range w.shard {
		sent += w.shard[i].sent
		w.shard[i].sent = 0
	}
	// Gossip costs every node a message a round, independent of its content.
	s.Messages = 1 + float64(sent)/float64(max(w.n, 1))
	return s
}

// moveCount counts how often tokens have changed their holder.
type moveCount struct{ holder []superpeer.Peer }

func (c *moveCount) count(w *world, holders []int32) int {
	moves := 0
	for _, s := range holders {
		t, _, _ := w.nodes[s].Holding()
		for int(t) >= len(c.holder) {
			c.holder = append(c.holder, superpeer.None)
		}
		if was := c.holder[t]; was != w.peerOf[s] {
			if was != superpeer.None {
				moves++
			}
			c.holder[t] = w.peerOf[s]
		}
	}
	return moves
}

func mean(xs []float32) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += float64(x)
	}
	return sum / float64(max(len(xs), 1))
}

// percentile sorts xs and returns its p-th percentile by nearest rank.
func percentile(xs []float32, p float64) float64 {
	if len(xs) == 0 {
		return 0
	}
	slices.Sort(xs)
	i := int(math.Ceil(p/100*float64(len(xs)))) - 1
	return float64(xs[max(0, i)])
}

// spread returns the coefficient of variation of the loads and Jain's index of fairness,
// (Σx)²/(n·Σx²) (Jain, Chiu, Hawe, DEC-TR-301, 1984).
func spread(loads []int) (cv, jain float64) {
	sum, squares := 0.0, 0.0
	for _, l := range loads {
		sum += float64(l)
		squares += float64(l) * float64(l)
	}
	n := float64(len(loads))
	if sum == 0 {
		return 0, 1
	}
	m := sum / n
	return math.Sqrt(max(0, squares/n-m*m)) / m, sum * sum / (n * squares)
}
