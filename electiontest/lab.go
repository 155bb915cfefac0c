package electiontest

import (
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// What the functions of this package take and return is the simulator's own.
type (
	// A Scenario is a script of the simulator, as [Load] reads it (docs/scenarios.md).
	Scenario = scenario.Scenario
	// A Maker returns what makes fresh algorithms of a name, for the members of a run.
	Maker = scenario.Maker
	// A SoakConfig has the seeds that [Soak] plays, the faults that it draws, and their rates.
	SoakConfig = sim.SoakConfig
	// A CountConfig has the members of the election that [Count] counts, and which of them begin.
	CountConfig = sim.CountConfig
	// A CountResult has the messages of an election by kind, and how long it took.
	CountResult = sim.CountResult
)

// Count plays one election in a calm cluster and counts its messages as textbooks do. It returns an error
// when the configuration is invalid, maker does not have the algorithm, or the members do not agree.
func Count(maker Maker, c CountConfig) (CountResult, error) { return sim.Count(maker, c) }
