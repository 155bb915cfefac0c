package explore_test

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// A form has all that decides what may follow. If it lacked something, the first way to a state
// would decide what a search finds after it.
func TestNoOrderOfASearchChangesItsStates(t *testing.T) {
	configs := []explore.Config{
		{Algorithm: "bully", Crashes: 2, Restarts: 1, OwnRounds: true},
		{Algorithm: "ring", Crashes: 1, Suspicions: 1},
		{Algorithm: "chang-roberts", Crashes: 2, Restarts: 1},
	}
	if fulltest.Enabled() {
		configs = append(configs, []explore.Config{
			{Algorithm: "bully", Crashes: 1, Restarts: 1, Suspicions: 1, OwnRounds: true},
			{Algorithm: "bully", Crashes: 1, Initiators: 2, OwnRounds: true},
			{Algorithm: "ring", Crashes: 2, Restarts: 1},
			{Algorithm: "ring", Crashes: 1, Restarts: 1, Suspicions: 1},
			{Algorithm: "ring", Crashes: 1, Initiators: 2},
			{Algorithm: "chang-roberts", Crashes: 1, Restarts: 1, Suspicions: 1},
		}...)
	}
	for _, c := range configs {
		c.Nodes, c.Workers = 3, 1
		var want explore.Result
		for order := range uint64(fulltest.Size(4, 8)) {
			c.Order = order
			r, err := explore.Search(t.Context(), everyMaker, c)
			switch {
			case err != nil || r.Violation != nil || !r.Complete:
				t.Fatalf("%+v: %+v, %v", c, r, err)
			case order == 0:
				want = r
			case r.States != want.States || r.Depth != want.Depth:
				t.Errorf("%+v: %d states, depth %d, in order %d; %d states, depth %d, in the first", c, r.States, r.Depth, order, want.States, want.Depth)
			}
		}
	}
}

func everyMaker(algorithm, _ string) (func() election.Algorithm, error) {
	return func() election.Algorithm {
		switch algorithm {
		case "ring":
			return ring.New()
		case "chang-roberts":
			return ring.NewChangRoberts()
		}
		return bully.New()
	}, nil
}
