package sim_test

import (
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/sim"
)

// Each draw comes about, and none changes what a seed means without it.
func TestDraws(t *testing.T) {
	drawn := map[sim.Draw]func(*sim.Scenario) bool{
		sim.DrawPriorities: func(s *sim.Scenario) bool {
			return slices.ContainsFunc(s.Setup.Members, func(r election.Rank) bool { return r.Priority != 0 })
		},
		sim.DrawTimes:      func(s *sim.Scenario) bool { return s.Setup.Timing != election.Timing{} },
		sim.DrawLatencies:  func(s *sim.Scenario) bool { return len(s.Setup.Links) > 0 },
		sim.DrawHangs:      hasStep(func(s sim.Step) bool { return s.Do == sim.Disk || s.Word == "but disks" }),
		sim.DrawDuplicates: hasStep(func(s sim.Step) bool { return s.Do == sim.Duplicate }),
		sim.DrawStalls:     hasStep(func(s sim.Step) bool { return s.Do == sim.Freeze }),
		sim.DrawCuts:       hasStep(func(s sim.Step) bool { return s.Word == "but cuts" }),
	}
	faults := []sim.Verb{sim.Crash, sim.Restart, sim.Cut}
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

func hasStep(is func(sim.Step) bool) func(*sim.Scenario) bool {
	return func(s *sim.Scenario) bool { return slices.ContainsFunc(s.Steps, is) }
}
