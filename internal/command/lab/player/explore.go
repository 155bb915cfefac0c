package player

import (
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim/explore"
)

// ExploreConfig is what to explore.
type ExploreConfig struct {
	Algorithm  string `json:"algorithm"`
	Probe      string `json:"probe"`
	Nodes      int    `json:"nodes"`
	Crashes    int    `json:"crashes"`
	Restarts   int    `json:"restarts"`
	Suspicions int    `json:"suspicions"`
	Initiators int    `json:"initiators"`
}

// maxStates is how many states a page keeps: some hundred megabytes.
const maxStates = 40_000

// Explore begins a walk through every order of events of a small cluster.
func Explore(c ExploreConfig) (*explore.Walk, error) {
	return explore.NewWalk(algorithm.Maker, explore.Config{Algorithm: c.Algorithm, Option: c.Probe, Nodes: min(c.Nodes, 4),
		Crashes: c.Crashes, Restarts: c.Restarts, Suspicions: c.Suspicions, Initiators: c.Initiators,
		OwnRounds: c.Algorithm == "bully", States: maxStates})
}
