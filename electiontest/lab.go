package electiontest

import (
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// The functions of this package take and return types of the simulator.
type (
	// A Scenario is a script of the simulator, as [Load] reads it (docs/scenarios.md).
	Scenario = scenario.Scenario
	// A Maker returns what makes fresh algorithms of a name, for the members of a run.
	Maker = scenario.Maker
	// A SoakConfig has the seeds that [Soak] plays, the faults that it draws, and their rates.
	SoakConfig = sim.SoakConfig
	// A SoakResult has the schedules that were played, and those that broke a rule.
	SoakResult = sim.SoakResult
	// A Verb is a fault or a call that a schedule of [Soak] may have, such as "crash".
	Verb = scenario.Verb
	// A Draw is what further varies between the schedules of [Soak], such as the members' clocks.
	Draw = draw.Kind
	// An Outcome is how a scenario ended.
	Outcome = sim.Outcome
	// A CountConfig has the members of the election that [Count] counts, and which of them begin.
	CountConfig = sim.CountConfig
	// A CountResult has the messages of an election by kind, and how long it took.
	CountResult = sim.CountResult
)

// SoakFaults returns the faults that schedules are made of by default.
func SoakFaults() []Verb { return sim.SoakFaults() }

// MembershipFaults returns the verbs of schedules in which members come and go.
func MembershipFaults() []Verb { return sim.MembershipFaults() }

// DefaultDraws returns what further varies by default.
func DefaultDraws() []Draw { return draw.Defaults() }

// Parse reads a scenario from text (docs/scenarios.md); name is for its errors.
func Parse(name, text string) (*Scenario, error) { return scenario.Parse(name, text) }

// Play plays a scenario. Its error is the first rule or expectation that breaks.
func Play(maker Maker, s *Scenario) (Outcome, error) { return sim.Play(s, maker, nil) }

// Count plays an election without faults and counts its messages as textbooks do. It returns an
// error if the configuration is invalid, maker does not have the algorithm, or the members do
// not agree.
func Count(maker Maker, c CountConfig) (CountResult, error) { return sim.Count(maker, c) }
