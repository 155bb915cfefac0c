// Package explore tries every order of events of a small cluster: deliveries, timers, crashes,
// restarts and false suspicions. Such a search has no time. For cores that measure time
// themselves, time passes when nothing is left to deliver. [Search] goes breadth first, so it
// reports a broken rule as a shortest script. [Play] plays such a script.
package explore

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/zeebo/xxh3"

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
	if t, err := newTimed(maker, c, ranks); t != nil || err != nil {
		return searchIn(ctx, t, c, err)
	}
	x, err := newExplorer(maker, c, ranks)
	return searchIn(ctx, x, c, err)
}

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

// space is the graph of all states that a search may reach.
type space[S any] interface {
	first() (S, *invariant.Violation)
	key(c S, b []byte) []byte // appends the canonical form of c
	moves(c S, to []move) []move
	rest(c S, moves []move) *invariant.Violation // checks a state in which nothing is left to happen
	after(c S, mv move) (S, *invariant.Violation)
	tooFar(c S) bool
	fork() space[S] // a space for a further worker
	scenario(path []move) *scenario.Scenario
}

func searchIn[S any](ctx context.Context, x space[S], c Config, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	first, v := x.first()
	if v != nil {
		return Result{Violation: v, Scenario: x.scenario(nil)}, nil
	}
	s := &search[S]{x: x, c: c}
	s.add(first, noParent, move{}, nil)
	return s.run(ctx, first), nil
}

// maxExplored is the size of the largest cluster: its pairs fit in 64 bits.
const maxExplored = 8

const noParent = 1<<32 - 1

// shards divide the set of known states, so that workers seldom wait for a lock.
const shards = 256

type search[S any] struct {
	x     space[S]
	c     Config
	known [shards]struct {
		sync.Mutex
		set map[xxh3.Uint128]struct{}
	}

	mu      sync.Mutex
	parents []step // by state, in the order of discovery
	states  atomic.Uint64
	cut     atomic.Bool // a state was left unexpanded
	broken  *breach
}

// step is how a state was first reached.
type step struct {
	parent uint32
	move   move
}

type breach struct {
	v    *invariant.Violation
	from uint32
	last move
	rest bool // the state itself breaks the rule; there is no last move
}

// reached is a state of the frontier and its index in search.parents.
type reached[S any] struct {
	c  S
	no uint32
}

func (s *search[S]) add(c S, parent uint32, mv move, buf []byte) (no uint32, fresh bool, _ []byte) {
	buf = s.x.key(c, buf[:0])
	h := xxh3.Hash128(buf)
	shard := &s.known[h.Lo%shards]
	shard.Lock()
	if shard.set == nil {
		shard.set = map[xxh3.Uint128]struct{}{}
	}
	_, known := shard.set[h]
	if !known {
		shard.set[h] = struct{}{}
	}
	shard.Unlock()
	if known {
		return 0, false, buf
	}
	s.states.Add(1)
	s.mu.Lock()
	s.parents = append(s.parents, step{parent, mv})
	no = uint32(len(s.parents) - 1)
	s.mu.Unlock()
	return no, true, buf
}

func (s *search[S]) run(ctx context.Context, first S) Result {
	r := Result{Complete: true}
	frontier := []reached[S]{{first, 0}}
	for len(frontier) > 0 && s.broken == nil {
		next := s.level(ctx, frontier)
		r.States = s.states.Load()
		if ctx.Err() != nil || s.c.States > 0 && r.States > s.c.States {
			s.cut.Store(true)
			break
		}
		frontier = next
		if len(frontier) > 0 {
			r.Depth++
		}
		if s.c.Progress != nil {
			s.c.Progress(r)
		}
	}
	r.Complete = !s.cut.Load() && s.broken == nil
	if s.broken != nil {
		r.Violation = s.broken.v
		r.Scenario = s.x.scenario(s.path())
	}
	return r
}

// chunk is how many states a worker takes at a time.
const chunk = 256

func (s *search[S]) level(ctx context.Context, frontier []reached[S]) []reached[S] {
	var workers sync.WaitGroup
	var at atomic.Int64
	found := make([][]reached[S], s.c.Workers)
	for k := range s.c.Workers {
		workers.Go(func() {
			e := expander[S]{search: s, x: s.x.fork()}
			for ctx.Err() == nil {
				from := int(at.Add(chunk)) - chunk
				if from >= len(frontier) {
					break
				}
				for i := from; i < min(from+chunk, len(frontier)); i++ {
					e.expand(frontier[i])
					frontier[i] = reached[S]{}
				}
			}
			found[k] = e.found
		})
	}
	workers.Wait()
	return slices.Concat(found...)
}

type expander[S any] struct {
	*search[S]
	x     space[S]
	found []reached[S]
	moves []move
	buf   []byte
}

func (e *expander[S]) expand(from reached[S]) {
	e.moves = e.x.moves(from.c, e.moves[:0])
	if v := e.x.rest(from.c, e.moves); v != nil {
		e.report(&breach{v: v, from: from.no, rest: true})
		return
	}
	for _, mv := range e.moves {
		next, v := e.x.after(from.c, mv)
		if v != nil {
			e.report(&breach{v: v, from: from.no, last: mv})
			continue
		}
		if e.x.tooFar(next) {
			e.cut.Store(true)
			continue
		}
		var no uint32
		var fresh bool
		if no, fresh, e.buf = e.add(next, from.no, mv, e.buf); fresh {
			e.found = append(e.found, reached[S]{next, no})
		}
	}
}

func (x *explorer) rest(c *state, moves []move) *invariant.Violation {
	if !x.rests(c, moves) {
		return nil
	}
	return x.atRest(c)
}

func (x *explorer) fork() space[*state] {
	y := *x
	return &y
}

// rests reports whether only new faults may happen.
func (x *explorer) rests(c *state, moves []move) bool {
	for _, mv := range moves {
		switch mv.kind {
		case crashMember, startMember, callElection:
		case suspectPeer:
			if c.machines[mv.b] == nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func (x *explorer) tooFar(c *state) bool {
	if x.c.Epochs == 0 {
		return false
	}
	var rounds [16]uint64
	low, high := x.bases(c, &rounds), uint64(0)
	for _, t := range c.disks {
		high = max(high, t.Epoch)
	}
	return high > low+uint64(x.c.Epochs)
}

// report keeps the violation of the level that has the smallest state. The result then does not
// depend on the number of workers.
func (s *search[S]) report(b *breach) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil || b.from < s.broken.from {
		s.broken = b
	}
}

// path returns the moves from the first state to the violation.
func (s *search[S]) path() []move {
	var back []move
	if !s.broken.rest {
		back = append(back, s.broken.last)
	}
	for no := s.broken.from; s.parents[no].parent != noParent; no = s.parents[no].parent {
		back = append(back, s.parents[no].move)
	}
	slices.Reverse(back)
	return back
}

// scenario writes a path of the search as a script of manual steps.
func (x *explorer) scenario(path []move) *scenario.Scenario {
	s := &scenario.Scenario{Name: "explored", Messages: true, Setup: scenario.Setup{Algorithm: x.c.Algorithm, Option: x.c.Option,
		Members: x.ranks, NoDetector: true, Settled: true, Manual: true}}
	y := *x
	y.log = nil
	c, _ := y.first()
	for _, mv := range path {
		s.Steps = append(s.Steps, y.asStep(c, mv))
		next, v := y.after(c, mv)
		if v != nil {
			break
		}
		c = next
	}
	return s
}

func (x *explorer) asStep(c *state, mv move) scenario.Step {
	a, b := x.ranks[mv.a].ID, x.ranks[mv.b].ID
	step := scenario.Step{Do: untimedVerbs[mv.kind], Members: []election.ID{a}}
	switch mv.kind {
	case deliverHead, beatPeer:
		step.Members, step.Links = nil, []scenario.Link{{A: a, B: b}}
	case fireTimer:
		step.Word = c.machines[mv.a].timers[mv.no]
	case suspectPeer, trustPeer:
		step.Members = []election.ID{a, b}
	}
	return step
}
