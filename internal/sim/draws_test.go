package sim_test

import (
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Each draw comes about, and none changes what a seed means without it.
func TestDraws(t *testing.T) {
	drawn := map[sim.Draw]func(*scenario.Scenario) bool{
		sim.DrawPriorities: func(s *scenario.Scenario) bool {
			return slices.ContainsFunc(s.Setup.Members, func(r election.Rank) bool { return r.Priority != 0 })
		},
		sim.DrawTimes:      func(s *scenario.Scenario) bool { return s.Setup.Timing != election.Timing{} },
		sim.DrawLatencies:  func(s *scenario.Scenario) bool { return len(s.Setup.Links) > 0 },
		sim.DrawHangs:      hasStep(func(s scenario.Step) bool { return s.Do == scenario.Disk || s.Word == "but disks" }),
		sim.DrawDuplicates: hasStep(func(s scenario.Step) bool { return s.Do == scenario.Duplicate }),
		sim.DrawStalls:     hasStep(func(s scenario.Step) bool { return s.Do == scenario.Freeze }),
		sim.DrawCuts:       hasStep(func(s scenario.Step) bool { return s.Word == "but cuts" }),
		sim.DrawElections:  hasStep(func(s scenario.Step) bool { return s.Do == scenario.Stand }),
		sim.DrawFounding:   func(s *scenario.Scenario) bool { return s.Setup.Expect > 0 || s.Setup.Newcomer },
		sim.DrawMinMembers: func(s *scenario.Scenario) bool { return s.Setup.MinMembers > 0 },
	}
	faults := []scenario.Verb{scenario.Crash, scenario.Restart, scenario.Cut}
	for _, d := range sim.Draws() {
		const seeds = 300
		count := 0
		for seed := uint64(1); seed <= seeds; seed++ {
			bare := sim.SoakConfig{Algorithm: "bully", Faults: faults, Draws: []sim.Draw{}}
			with := bare
			with.Draws = []sim.Draw{d}
			a, b := bare.Schedule(seed), with.Schedule(seed)
			switch found := drawn[d](b); {
			case found:
				count++
			case a.String() != b.String():
				t.Errorf("%s does not come about in seed %d and changes it:\n%s\n%s", d, seed, a, b)
			}
			if drawn[d](a) {
				t.Errorf("%s comes about in seed %d without being asked for", d, seed)
			}
		}
		if count < seeds/20 || count > seeds/2 {
			t.Errorf("%s comes about in %d of %d schedules", d, count, seeds)
		}
	}
}

func hasStep(is func(scenario.Step) bool) func(*scenario.Scenario) bool {
	return func(s *scenario.Scenario) bool { return slices.ContainsFunc(s.Steps, is) }
}
