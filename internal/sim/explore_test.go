package sim_test

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/trace"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

func TestExplore(t *testing.T) {
	for _, probe := range []string{"descending", "all"} {
		t.Run(probe, func(t *testing.T) {
			c := explore.Config{Algorithm: "bully", Option: probe, Nodes: 3, Crashes: 1, Restarts: fulltest.Size(0, 1), Suspicions: 1, OwnRounds: true}
			r, err := explore.Search(t.Context(), maker, c)
			if err != nil {
				t.Fatal(err)
			}
			if r.Violation != nil {
				log := trace.Log{Messages: true}
				_, err := sim.Play(r.Scenario, maker, log.Add)
				t.Fatalf("%d states, depth %d: %v\n%s----\n%s\nplayed: %v", r.States, r.Depth, r.Violation, r.Scenario, log.Text(), err)
			}
			if !r.Complete {
				t.Errorf("%d states, and not to the end", r.States)
			}
			t.Logf("%d states, depth %d", r.States, r.Depth)
		})
	}
}
