package explore

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// search goes through a space breadth first, and numbers the states in the order of discovery.
type search[S any] struct {
	x     space[S]
	limit uint64 // further states are left out; 0: none
	known [256]struct {
		sync.Mutex // workers seldom wait for one of so many
		numbers    map[digest]uint32
	}

	mu      sync.Mutex
	parents []step // by number
	cut     atomic.Bool
	broken  *breach
}

// step is how a state was first reached.
type step struct {
	parent uint32
	move   move
}

// none is no number of a state.
const none = 1<<32 - 1

type breach struct {
	v    *invariant.Violation
	from uint32
	last []move // none: the state itself breaks the rule
}

// reached is a state and its number.
type reached[S any] struct {
	c  S
	no uint32
}

// begin begins a search at the first state, or returns the rule that it breaks.
func begin[S any](x space[S], limit uint64) (*search[S], S, *invariant.Violation) {
	first, v := x.first()
	s := &search[S]{x: x, limit: limit}
	if v == nil {
		e := expander[S]{search: s, x: x}
		e.reach(first, none, move{})
	}
	return s, first, v
}

func searchIn[S any](ctx context.Context, x space[S], err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	s, first, v := begin(x, 0)
	if v != nil {
		return Result{Violation: v, Scenario: script(x, nil)}, nil
	}
	return s.run(ctx, first), nil
}

func (s *search[S]) run(ctx context.Context, first S) Result {
	c := &s.x.shared().c
	r := Result{Complete: true}
	frontier := []reached[S]{{first, 0}}
	for len(frontier) > 0 && s.broken == nil {
		next := s.level(ctx, frontier)
		r.States = uint64(len(s.parents))
		if ctx.Err() != nil || c.States > 0 && r.States > c.States {
			s.cut.Store(true)
			break
		}
		frontier = next
		if len(frontier) > 0 {
			r.Depth++
		}
		if c.Progress != nil {
			c.Progress(r)
		}
	}
	r.Complete = !s.cut.Load() && s.broken == nil
	if b := s.broken; b != nil {
		r.Violation = b.v
		r.Scenario = script(s.x, append(s.path(b.from), b.last...))
	}
	return r
}

// chunk is how many states a worker takes at a time.
const chunk = 256

func (s *search[S]) level(ctx context.Context, frontier []reached[S]) []reached[S] {
	var workers sync.WaitGroup
	var at atomic.Int64
	found := make([][]reached[S], s.x.shared().c.Workers)
	for k := range found {
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

// expander is a worker of a search.
type expander[S any] struct {
	*search[S]
	x     space[S]
	found []reached[S] // the new states
	moves []move
	buf   []byte
	outcome
}

// outcome is what was found at a state.
type outcome struct {
	rests bool
	wrong *invariant.Violation // at rest; no move is made then
	edges []edge
}

// edge is a move out of a state.
type edge struct {
	move
	to     uint32 // none: it breaks a rule, or was left out
	broken *invariant.Violation
}

// expand makes all moves out of a state.
func (e *expander[S]) expand(from reached[S]) {
	e.moves = e.x.reduced(from.c, e.x.moves(from.c, e.moves[:0]))
	if order := e.x.shared().c.Order; order > 0 {
		random := rand.New(rand.NewPCG(order, uint64(from.no)))
		random.Shuffle(len(e.moves), func(i, j int) { e.moves[i], e.moves[j] = e.moves[j], e.moves[i] })
	}
	e.outcome = outcome{rests: e.x.rests(from.c, e.moves), edges: e.edges[:0]}
	if e.rests {
		if e.wrong = e.x.atRest(from.c); e.wrong != nil {
			e.report(&breach{v: e.wrong, from: from.no})
			return
		}
	}
	for _, mv := range e.moves {
		next, v := e.x.after(from.c, mv)
		to := uint32(none)
		switch {
		case v != nil:
			e.report(&breach{v, from.no, []move{mv}})
		case e.x.tooFar(next):
			e.cut.Store(true)
		default:
			to = e.reach(next, from.no, mv)
		}
		e.edges = append(e.edges, edge{mv, to, v})
	}
}

// reach returns the number of a state; none if it is new and left out.
func (e *expander[S]) reach(c S, parent uint32, mv move) uint32 {
	e.buf = e.x.key(c, e.buf[:0])
	h := digestOf(e.buf)
	shard := &e.known[h[0]%256]
	shard.Lock()
	defer shard.Unlock()
	if no, known := shard.numbers[h]; known {
		return no
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	no := uint32(len(e.parents))
	if e.limit > 0 && uint64(no) >= e.limit {
		e.cut.Store(true)
		return none
	}
	if shard.numbers == nil {
		shard.numbers = map[digest]uint32{}
	}
	shard.numbers[h] = no
	e.parents = append(e.parents, step{parent, mv})
	e.found = append(e.found, reached[S]{c, no})
	return no
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

// path returns the moves from the first state to another.
func (s *search[S]) path(no uint32) (moves []move) {
	for ; s.parents[no].parent != none; no = s.parents[no].parent {
		moves = append(moves, s.parents[no].move)
	}
	slices.Reverse(moves)
	return moves
}
