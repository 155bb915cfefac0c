// Package explore tries every order of events of a small cluster: deliveries, timers, crashes,
// restarts and false suspicions. [Search] goes breadth first, so it reports a broken rule as a
// shortest script. [Play] plays such a script, and a [Walk] keeps the states for people to look at.
//
// All three use one engine: search.go, walk.go and script.go. It takes the states and the moves
// between them from a space (space.go), of which there are two:
//
//   - untimed….go has members that are a [machine.Machine] without a detector. Time does not
//     exist: timers and suspicions are moves. A state has copies of the machines.
//   - timed….go has members that measure time themselves, as those of a quorum do. Time passes
//     when nothing is left to deliver, and it causes the timers and suspicions. Such a core cannot
//     be copied, so a state of a member is kept as the events that led to it.
package explore

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"strconv"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Config is what to search. The zero value of each optional field works.
type Config struct {
	Algorithm  string // required; passed to the [scenario.Maker]: an [election.Explorable], or an algorithm with a comparable core
	Option     string // the algorithm's own option
	Nodes      int    // required: members 1 to n, at most 8
	Crashes    int    // how many there may be
	Restarts   int    // of dead members, with their files intact
	Suspicions int    // false suspicions, and timers that fire before deliverable messages arrive; for a core that measures time, stopped members
	Initiators int    // elections on request, besides those after a crash or a suspicion
	Epochs     int    // largest distance of epochs at which a state is still expanded; 0: any
	OwnRounds  bool   // a member holds only its own round numbers, as with Bully
	States     uint64 // give up after so many; 0: never
	Workers    int    // default: a worker per core
	Order      uint64 // makes the moves of each state in an order drawn from it, which must not change the result; 0: as they are listed
	Progress   func(Result)
}

// Result is the outcome of a search.
type Result struct {
	States    uint64               // distinct states reached
	Depth     int                  // moves to the farthest state
	Complete  bool                 // nothing was left out
	Violation *invariant.Violation // at the end of a shortest path; nil: none
	Scenario  *scenario.Scenario   // that path, as a script
}

// Search tries, breadth first, every order of deliveries, timers, crashes, restarts and false
// suspicions within the budgets. It stops at the first level that breaks a rule, and when ctx ends.
func Search(ctx context.Context, maker scenario.Maker, c Config) (Result, error) {
	ranks, err := c.members()
	if err != nil {
		return Result{}, err
	}
	c.Workers = cmp.Or(c.Workers, runtime.GOMAXPROCS(0))
	k, timed, err := newCluster(maker, c, ranks)
	if err != nil {
		return Result{}, err
	}
	if timed {
		x, err := newTimed(k)
		return searchIn(ctx, x, err)
	}
	x, err := newUntimed(k)
	return searchIn(ctx, x, err)
}

// maxExplored is the size of the largest cluster: its pairs fit in 64 bits.
const maxExplored = 8

// members returns the members of the cluster, or which field of c is out of range.
func (c *Config) members() (ranks []election.Rank, err error) {
	if c.Nodes < 1 || c.Nodes > maxExplored {
		return nil, fmt.Errorf("%d members: explore 1 to %d", c.Nodes, maxExplored)
	}
	for _, b := range [...]int{c.Crashes, c.Restarts, c.Suspicions, c.Initiators, c.Epochs} {
		if b < 0 || b > 100 {
			return nil, fmt.Errorf("a budget of %d: give 0 to 100", b)
		}
	}
	for i := range c.Nodes {
		ranks = append(ranks, election.Rank{ID: election.ID(strconv.Itoa(i + 1))})
	}
	return ranks, nil
}
