package draw_test

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Each draw comes about, and none changes what a seed means without it.
func TestDraws(t *testing.T) {
	drawn := map[draw.Kind]func(*scenario.Scenario) bool{
		draw.Priorities: func(s *scenario.Scenario) bool {
			return slices.ContainsFunc(s.Setup.Members, func(r election.Rank) bool { return r.Priority != 0 })
		},
		draw.Times:      func(s *scenario.Scenario) bool { return s.Setup.Timing != election.Timing{} },
		draw.Latencies:  func(s *scenario.Scenario) bool { return len(s.Setup.Links) > 0 },
		draw.Hangs:      hasStep(func(s scenario.Step) bool { return s.Do == scenario.Disk || s.Word == "but disks" }),
		draw.Duplicates: hasStep(func(s scenario.Step) bool { return s.Do == scenario.Duplicate }),
		draw.Stalls:     hasStep(func(s scenario.Step) bool { return s.Do == scenario.Freeze }),
		draw.Cuts:       hasStep(func(s scenario.Step) bool { return s.Word == "but cuts" }),
		draw.Elections:  hasStep(func(s scenario.Step) bool { return s.Do == scenario.Stand }),
		draw.Founding:   func(s *scenario.Scenario) bool { return s.Setup.Expect > 0 || s.Setup.Newcomer },
		draw.MinMembers: func(s *scenario.Scenario) bool { return s.Setup.MinMembers > 0 },
		draw.Handovers: func(s *scenario.Scenario) bool {
			return s.Setup.Work && !slices.Contains([]time.Duration{0, 100 * time.Millisecond, 700 * time.Millisecond, 3 * time.Second}, s.Setup.Drain)
		},
	}
	drawn[draw.Full] = hasStep(func(s scenario.Step) bool { return s.Do == scenario.Disk })
	drawn[draw.Requests] = hasStep(func(s scenario.Step) bool { return s.Do == scenario.Pause || s.Do == scenario.Candidacy })
	drawn[draw.Absences] = func(s *scenario.Scenario) bool { return s.Setup.Timing.Silence > 0 }
	drawn[draw.Attested] = func(s *scenario.Scenario) bool { return s.Setup.Option == "attested" }
	drawn[draw.Claimants] = hasStep(func(s scenario.Step) bool { return s.Do == scenario.Duplicate })
	drawn[draw.Late] = func(s *scenario.Scenario) bool { return s.Setup.LateWrites }
	faults := []scenario.Verb{scenario.Crash, scenario.Restart, scenario.Cut}
	drawn[draw.Churn] = hasStep(func(s scenario.Step) bool { return s.Do == scenario.Remove || s.Do == scenario.Leave })
	drawn[draw.Rivals] = hasStep(func(s scenario.Step) bool { return s.Do == scenario.Health || s.Do == scenario.Candidacy })
	drawn[draw.Retimes] = hasStep(func(s scenario.Step) bool { return s.Do == scenario.Times })
	for _, d := range draw.Kinds() {
		const seeds = 300
		count := 0
		for seed := uint64(1); seed <= seeds; seed++ {
			bare := draw.Config{Algorithm: "bully", Nodes: 5, PerRun: 10, Faults: faults, Draws: []draw.Kind{}}
			if slices.Contains([]draw.Kind{draw.Attested, draw.Claimants, draw.Churn, draw.Retimes}, d) {
				bare.Algorithm = "quorum"
			}
			with := bare
			with.Draws = []draw.Kind{d}
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
