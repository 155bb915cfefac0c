package player

import (
	"context"

	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim"
)

// SoakConfig sets which random schedules to play.
type SoakConfig struct {
	Algorithm string `json:"algorithm"`
	Nodes     int    `json:"nodes"`
	From      uint64 `json:"from"` // seeds, both included
	To        uint64 `json:"to"`
}

// Soaked is what came of them.
type Soaked struct {
	Error     string        `json:"error,omitempty"`
	Schedules uint64        `json:"schedules"`
	Simulated float64       `json:"simulated"` // seconds
	Agreed    float64       `json:"agreed"`    // the longest agreement, in ms
	Share     float64       `json:"share"`     // the largest part of its bound that was taken
	Slowest   uint64        `json:"slowest"`   // the seed of that
	Failing   []sim.Failure `json:"failing"`
}

func (c SoakConfig) soak() sim.SoakConfig {
	s := sim.SoakConfig{Algorithm: c.Algorithm, Nodes: min(c.Nodes, 50), From: c.From, To: c.To, Workers: 1}
	if c.Algorithm == "bully" {
		s.Options = algorithm.Probes()
	}
	return s
}

// Soak plays the random schedule of each seed.
func Soak(c SoakConfig) Soaked {
	r, err := sim.Soak(context.Background(), algorithm.Maker, c.soak())
	if err != nil {
		return Soaked{Error: err.Error()}
	}
	s := Soaked{Schedules: r.Schedules, Simulated: r.Simulated.Seconds(), Agreed: ms(r.Agreed),
		Share: r.Share, Slowest: r.Slowest, Failing: r.Failing}
	if s.Failing == nil {
		s.Failing = []sim.Failure{}
	}
	return s
}

// Schedule is the random scenario of a seed, as text.
func Schedule(c SoakConfig, seed uint64) string { return c.soak().Schedule(seed).String() }
