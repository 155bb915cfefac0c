package ring_test

import (
	"fmt"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// Every order of deliveries and timers, with crashes, restarts and false
// suspicions, to the end.
func TestExplore(t *testing.T) {
	for _, c := range []explore.Config{
		{Algorithm: "ring", Nodes: 4, Crashes: 1},
		{Algorithm: "chang-roberts", Nodes: 5, Crashes: 2},
		{Algorithm: "chang-roberts", Nodes: 4, Crashes: 1, Suspicions: 1},
		{Algorithm: "chang-roberts", Nodes: 3, Crashes: 1, Restarts: 1, Suspicions: 1},
		{Algorithm: "chang-roberts", Nodes: 3, Crashes: 2, Restarts: 1},
	} {
		t.Run(fmt.Sprintf("%s, n=%d, %d crashes, %d restarts, %d suspicions", c.Algorithm, c.Nodes, c.Crashes, c.Restarts, c.Suspicions), func(t *testing.T) {
			search(t, c)
		})
	}
}

func search(t *testing.T, c explore.Config) {
	t.Helper()
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
		t.Errorf("%d states, depth %d, and not to the end", r.States, r.Depth)
	}
	t.Logf("%d states, depth %d", r.States, r.Depth)
}
