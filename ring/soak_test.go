package ring_test

import (
	"testing"

	"github.com/batuta-dev/batuta/sim"
)

// Random faults, then peace: everyone agrees, and no rule is broken on the way.
func TestSoak(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			c := sim.SoakConfig{Algorithm: algorithm, From: 1, To: 3000}
			if testing.Short() {
				c.To = 300
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
		})
	}
}
