package explore

import (
	"math/rand/v2"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// shuffled is a space whose moves come in a random order. A state is then first reached in a
// different way.
type shuffled struct {
	space[*untimedState]
	random *rand.Rand
}

func (s shuffled) fork() space[*untimedState] { return s }

func (s shuffled) moves(c *untimedState, to []move) []move {
	to = s.space.moves(c, to)
	s.random.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
	return to
}

// A form has all that decides what may follow. If it lacked something, the first way to a state
// would decide what a search finds after it.
func TestNoOrderOfASearchChangesItsStates(t *testing.T) {
	configs := []Config{
		{Algorithm: "bully", Crashes: 2, Restarts: 1, OwnRounds: true},
		{Algorithm: "ring", Crashes: 1, Suspicions: 1},
		{Algorithm: "chang-roberts", Crashes: 2, Restarts: 1},
	}
	if fulltest.Enabled() {
		configs = append(configs, []Config{
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
		var want Result
		for seed := range uint64(fulltest.Size(4, 8)) {
			ranks, err := c.members()
			if err != nil {
				t.Fatal(err)
			}
			k, _, err := newCluster(everyMaker, c, ranks)
			if err != nil {
				t.Fatal(err)
			}
			x, err := newUntimed(k)
			if err != nil {
				t.Fatal(err)
			}
			r, err := searchIn[*untimedState](t.Context(), shuffled{x, rand.New(rand.NewPCG(seed, 0))}, nil)
			switch {
			case err != nil || r.Violation != nil || !r.Complete:
				t.Fatalf("%+v: %+v, %v", c, r, err)
			case seed == 0:
				want = r
			case r.States != want.States || r.Depth != want.Depth:
				t.Errorf("%+v: %d states, depth %d, in order %d; %d states, depth %d, in the first", c, r.States, r.Depth, seed, want.States, want.Depth)
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
