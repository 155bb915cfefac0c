// Package overlay is a run of super peers as the lab shows it: round by round, for a page.
package overlay

import (
	"math"

	"github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/internal/superpeer/lab"
)

// Config sets up the overlay to show.
type Config struct {
	Method   string  `json:"method"`
	Space    string  `json:"space"`
	Nodes    int     `json:"nodes"` // at most 5,000
	Fraction float64 `json:"fraction"`
	Capacity int     `json:"capacity"`
	Seed     uint64  `json:"seed"`
	Churn    string  `json:"churn"` // as of "batuta sim superpeers"
}

// Bounds of what a page looks at.
const (
	maxOverlay = 5000
	maxRounds  = 300
)

// Round is an overlay after a round. Places are from 0 to 1.
type Round struct {
	Round    int            `json:"round"`
	Live     int            `json:"live"`
	Wanted   int            `json:"wanted"`
	Mean     float64        `json:"mean"` // latency, in ms
	LoadMax  int            `json:"loadMax"`
	Unserved float64        `json:"unserved"` // share
	Moves    int            `json:"moves"`    // of tokens
	Shape    float64        `json:"shape"`    // width of the map over its height
	Nodes    [][3]float64   `json:"nodes"`    // x, y, the place of its super peer in Super; -1: no super peer serves it
	Super    []lab.MapSuper `json:"super"`
}

// Overlay is a run of super peers, round by round.
type Overlay struct {
	watch *lab.Watch
	round int
}

// New begins a run.
func New(c Config) (*Overlay, error) {
	churn, err := lab.ParseChurn(c.Churn)
	if err != nil {
		return nil, err
	}
	w, err := lab.NewWatch(lab.Options{Method: superpeer.Method(c.Method), Space: c.Space, Nodes: min(c.Nodes, maxOverlay), Fraction: c.Fraction,
		Capacity: c.Capacity, Rounds: maxRounds, Churn: churn, Seed: c.Seed})
	if err != nil {
		return nil, err
	}
	return &Overlay{watch: w}, nil
}

// Round plays the next round; nil: there have been enough.
func (o *Overlay) Round() *Round {
	if o == nil || o.round >= maxRounds {
		return nil
	}
	o.round++
	s, m := o.watch.Play(), o.watch.Map()
	r := &Round{Round: s.Round, Live: s.Live, Wanted: s.Wanted, Mean: s.Mean, LoadMax: s.LoadMax, Unserved: s.Unserved, Moves: s.Moves,
		Shape: m.Width / m.Height, Nodes: [][3]float64{}, Super: []lab.MapSuper{}}
	for _, n := range m.Nodes {
		r.Nodes = append(r.Nodes, [3]float64{short(n.X / m.Width), short(n.Y / m.Height), float64(n.Super)})
	}
	for _, p := range m.Super {
		p.X, p.Y = short(p.X/m.Width), short(p.Y/m.Height)
		r.Super = append(r.Super, p)
	}
	return r
}

// short is as much of a place as can be seen.
func short(x float64) float64 { return math.Round(x*1e4) / 1e4 }
