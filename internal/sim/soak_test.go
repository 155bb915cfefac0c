package sim_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

func init() { fulltest.MostlyComputes() }

func TestSoak(t *testing.T) {
	playSeeds(t, sim.SoakConfig{})
}

// TestSoakMembership: members come and go among all the other faults.
func TestSoakMembership(t *testing.T) {
	playSeeds(t, sim.SoakConfig{Faults: append(sim.SoakFaults(), sim.MembershipFaults()...)})
}

// TestSoakTelling: members publish metadata, now this and now that.
func TestSoakTelling(t *testing.T) {
	for _, algorithm := range []string{"bully", "ring"} {
		t.Run(algorithm, func(t *testing.T) {
			electiontest.Soak(t, maker, sim.SoakConfig{Algorithm: algorithm, From: 1, To: fulltest.Size[uint64](150, 1000),
				Faults: append(sim.SoakFaults(), sim.TellingFaults()...)})
		})
	}
	t.Run("membership", func(t *testing.T) {
		playSeeds(t, sim.SoakConfig{Faults: slices.Concat(sim.SoakFaults(), sim.MembershipFaults(), sim.TellingFaults()), To: 200})
	})
}

// TestSoakMinMembers: a member leads only while it receives enough of the others.
func TestSoakMinMembers(t *testing.T) {
	for _, algorithm := range []string{"bully", "ring", "chang-roberts"} {
		t.Run(algorithm, func(t *testing.T) {
			electiontest.Soak(t, maker, sim.SoakConfig{Algorithm: algorithm, From: 1, To: fulltest.Size[uint64](150, 2000), Draws: []draw.Kind{draw.MinMembers, draw.Cuts}})
		})
	}
}

// TestSoakRivals: candidacies and ranks change while a leader is elected.
func TestSoakRivals(t *testing.T) {
	for _, algorithm := range []string{"bully", "ring", "chang-roberts"} {
		t.Run(algorithm, func(t *testing.T) {
			electiontest.Soak(t, maker, sim.SoakConfig{Algorithm: algorithm, From: 1, To: fulltest.Size[uint64](150, 2000),
				Faults: append(sim.SoakFaults(), sim.MembershipFaults()...), Draws: []draw.Kind{draw.Rivals, draw.Latencies, draw.Priorities}})
		})
	}
}

func playSeeds(t *testing.T, c sim.SoakConfig) {
	c.Algorithm, c.Options, c.From = "bully", []string{"descending", "all"}, 1
	if c.To == 0 {
		c.To = fulltest.Size[uint64](1000, 5000)
	}
	electiontest.Soak(t, maker, c)
}

// Agreement is not believed sooner than the detector can find that it was none: the
// leader is cut off from one follower, and at any time later from the one that confirms it.
func TestAgreementOutlastsDetection(t *testing.T) {
	for seed := range 200 {
		for _, timing := range []string{"", "heartbeat 10ms\nt_max 20ms\nt_process 40ms\n"} {
			s, err := scenario.Parse("cut off", fmt.Sprintf("members 1 2 3\n%sseed %d\nagree\ncut 1-3\nrun %dms\ncut 2-3\nmark\n", timing, seed, 1+seed*11))
			if err != nil {
				t.Fatal(err)
			}
			s.Steps = append(s.Steps, scenario.Step{Do: scenario.Run, For: s.Setup.Hold()})
			for _, id := range []string{"1", "2"} {
				s.Steps = append(s.Steps, scenario.Step{Do: scenario.Expect, Expect: scenario.Expectation{What: "lost", Of: id, Op: ">=", N: 1}})
			}
			if _, err := sim.Play(s, maker, nil); err != nil {
				t.Errorf("%v\n%s", err, s)
			}
		}
	}
}

// A soak says which rules were broken, how often, and by which seeds.
func TestSoakTellsTheRules(t *testing.T) {
	nobody := func(string, string) (func() election.Algorithm, error) {
		return func() election.Algorithm { return idle{} }, nil
	}
	r, err := sim.Soak(t.Context(), nobody, sim.SoakConfig{Algorithm: "idle", From: 1, To: 30})
	if err != nil {
		t.Fatal(err)
	}
	rule := "once faults stop, every connected group of live members agrees, in bounded time, on its highest candidate"
	if r.Violations == 0 || r.ByRule[rule] != r.Violations || len(r.Failing) != int(r.Violations) {
		t.Errorf("an algorithm that does nothing: %d violations, by rule %v, seeds %v", r.Violations, r.ByRule, r.Failing)
	}
	for i, f := range r.Failing {
		if f.Rule != rule || i > 0 && r.Failing[i-1].Seed >= f.Seed {
			t.Errorf("seed %d broke %q, after seed %v", f.Seed, f.Rule, r.Failing[:i])
		}
	}
}

// idle never leads.
type idle struct{}

func (idle) Name() string                          { return "idle" }
func (idle) Step(election.Event, election.Actions) {}
