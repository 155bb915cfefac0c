package ring_test

import (
	"fmt"
	"testing"

	"github.com/batuta-dev/batuta/sim"
)

// Every order of deliveries and timers, with crashes, restarts and false
// suspicions, to the end.
func TestExplore(t *testing.T) {
	for _, c := range []sim.ExploreConfig{
		{Algorithm: "ring", Nodes: 4, Crashes: 1},
		{Algorithm: "chang-roberts", Nodes: 5, Crashes: 2},
		{Algorithm: "chang-roberts", Nodes: 4, Crashes: 1, Suspicions: 1},
		{Algorithm: "chang-roberts", Nodes: 3, Crashes: 1, Restarts: 1, Suspicions: 1},
		{Algorithm: "chang-roberts", Nodes: 3, Crashes: 2, Restarts: 1},
	} {
		t.Run(fmt.Sprintf("%s, n=%d, %d crashes, %d restarts, %d suspicions", c.Algorithm, c.Nodes, c.Crashes, c.Restarts, c.Suspicions), func(t *testing.T) {
			explore(t, c)
		})
	}
}

func explore(t *testing.T, c sim.ExploreConfig) {
	t.Helper()
	r, err := sim.Explore(t.Context(), maker, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violation != nil {
		trace := sim.Trace{Messages: true}
		_, err := sim.Play(r.Scenario, maker, trace.Add)
		t.Fatalf("%d states, depth %d: %v\n%s----\n%s\nplayed: %v", r.States, r.Depth, r.Violation, r.Scenario, trace.Text(), err)
	}
	if !r.Complete {
		t.Errorf("%d states, depth %d, and not to the end", r.States, r.Depth)
	}
	t.Logf("%d states, depth %d", r.States, r.Depth)
}
