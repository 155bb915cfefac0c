package sim_test

import (
	"testing"

	"github.com/batuta-dev/batuta/sim"
)

func TestSoak(t *testing.T) {
	playSeeds(t, sim.SoakConfig{To: 5000})
}

// TestSoakMembership: members come and go among all the other faults.
func TestSoakMembership(t *testing.T) {
	playSeeds(t, sim.SoakConfig{To: 5000, Faults: append(sim.SoakFaults(), sim.MembershipFaults()...)})
}

func playSeeds(t *testing.T, c sim.SoakConfig) {
	c.Algorithm, c.Probes, c.From = "bully", []string{"descending", "all"}, 1
	if testing.Short() || raced {
		c.To = 500
	}
	r, err := sim.Soak(t.Context(), maker, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations == 0 {
		t.Logf("%d schedules, %v simulated, agreement after %v at most", r.Schedules, r.Simulated, r.Agreed)
		return
	}
	s, v := sim.Shrink(c.Schedule(r.Failing[0]), maker)
	if v == nil {
		t.Fatalf("seed %d failed, and did not when played again", r.Failing[0])
	}
	trace := sim.Trace{Messages: true}
	_, _ = s.Play(maker, trace.Add)
	t.Errorf("%d of %d schedules break a rule, the first of seed %d\n%v\n%s----\n%s", r.Violations, r.Schedules, r.Failing[0], v, s, trace.Text())
}
