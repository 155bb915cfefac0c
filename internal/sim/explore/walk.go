package explore

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Walk is a search that keeps the states it reaches, for people to walk through. Each state is a
// number, from 0. It is for small clusters; Config.States limits it.
type Walk struct {
	x        *explorer
	places   []*place
	known    map[xxh3.Uint128]int
	expanded int
	cut      bool
	broken   int // the first state that leads to a violation; -1: none yet
}

// place is a state and the moves out of it.
type place struct {
	c      *state
	depth  int
	from   int // the state from which it was first reached
	mv     move
	ways   []way
	rests  bool
	broken *invariant.Violation // at rest
}

type way struct {
	mv     move
	to     int // -1: it breaks a rule, or was left out
	broken *invariant.Violation
}

// NewWalk begins a search.
func NewWalk(maker scenario.Maker, c Config) (*Walk, error) {
	if c.Nodes < 1 || c.Nodes > maxExplored {
		return nil, fmt.Errorf("%d members: explore 1 to %d", c.Nodes, maxExplored)
	}
	for _, b := range [...]int{c.Crashes, c.Restarts, c.Suspicions, c.Initiators} {
		if b < 0 || b > 100 {
			return nil, fmt.Errorf("a budget of %d: give 0 to 100", b)
		}
	}
	ranks := make([]election.Rank, c.Nodes)
	for i := range ranks {
		ranks[i].ID = election.ID(strconv.Itoa(i + 1))
	}
	x, err := newExplorer(maker, c, ranks)
	if err != nil {
		return nil, err
	}
	first, v := x.first()
	if v != nil {
		return nil, v
	}
	w := &Walk{x: x, known: map[xxh3.Uint128]int{}, broken: -1}
	w.reach(first, 0, -1, move{})
	return w, nil
}

// reach returns the number of a state, a new number if the state is new, or -1 if there are
// Config.States already.
func (w *Walk) reach(c *state, depth, from int, mv move) int {
	h := xxh3.Hash128(w.x.key(c, nil))
	if no, ok := w.known[h]; ok {
		return no
	}
	if w.x.c.States > 0 && uint64(len(w.places)) >= w.x.c.States {
		w.cut = true
		return -1
	}
	no := len(w.places)
	w.known[h] = no
	w.places = append(w.places, &place{c: c, depth: depth, from: from, mv: mv})
	return no
}

// Grow finds the moves out of n more states, in the order in which they were reached. It returns
// false when no state is left.
func (w *Walk) Grow(n int) bool {
	for ; n > 0 && w.expanded < len(w.places); n-- {
		w.expand(w.expanded)
		w.expanded++
	}
	return w.expanded < len(w.places)
}

func (w *Walk) expand(no int) {
	p := w.places[no]
	moves := w.x.moves(p.c, nil)
	if p.rests = w.x.rests(p.c, moves); p.rests {
		p.broken = w.x.atRest(p.c)
	}
	bad := p.broken != nil
	for _, mv := range moves {
		next, v := w.x.after(p.c, mv)
		to := -1
		if v == nil {
			to = w.reach(next, p.depth+1, no, mv)
		}
		bad = bad || v != nil
		p.ways = append(p.ways, way{mv, to, v})
	}
	if bad && w.broken < 0 {
		w.broken = no
	}
}

// Walked is the progress of a walk.
type Walked struct {
	States   int  // reached
	Expanded int  // states with all moves out of them
	Depth    int  // moves to the farthest state
	Cut      bool // Config.States has been reached: later states are left out
	Broken   int  // a state that breaks a rule, itself or by its next move, on a shortest path; -1: none so far
}

// Walked returns the progress so far.
func (w *Walk) Walked() Walked {
	return Walked{len(w.places), w.expanded, w.places[len(w.places)-1].depth, w.cut, w.broken}
}

// Place is a state for display.
type Place struct {
	Depth   int // moves from the first state
	From    int // the state from which it was first reached; -1: it is the first
	Rests   bool
	Broken  *invariant.Violation // of the state itself, at rest; nil: none
	Members []Standing
	Sent    []Underway // on their way, the oldest of each link first
	Ways    []Way      // nil: not computed yet
}

// Standing is a member in a state.
type Standing struct {
	ID     election.ID
	Dead   bool
	Leader election.Token // undefined: it follows no member
	Held   election.Token // on its disk
	Timers []string       // armed
}

// Underway is a message on its way; Kind is "" for the end of the connection.
type Underway struct {
	From, To election.ID
	Kind     election.MessageKind
	Token    election.Token
}

// Way is a move out of a state.
type Way struct {
	Step   string               // as a line of a script
	To     int                  // -1: it breaks a rule or is left out
	Broken *invariant.Violation // nil: none
}

// Place returns a state for display.
func (w *Walk) Place(no int) (Place, error) {
	if no < 0 || no >= len(w.places) {
		return Place{}, fmt.Errorf("state %d: there are 0 to %d", no, len(w.places)-1)
	}
	p := w.places[no]
	s := Place{Depth: p.depth, From: p.from, Rests: p.rests, Broken: p.broken}
	for i, r := range w.x.ranks {
		m := Standing{ID: r.ID, Dead: p.c.machines[i] == nil, Leader: p.c.told[i], Held: p.c.disks[i]}
		if !m.Dead {
			m.Timers = p.c.machines[i].timers
		}
		s.Members = append(s.Members, m)
	}
	for link, pipe := range p.c.pipes {
		for _, e := range pipe {
			u := Underway{From: w.x.ranks[link/w.x.n].ID, To: w.x.ranks[link%w.x.n].ID}
			if e != goodbye {
				u.Kind, u.Token = e.m.Kind, e.m.Token
			}
			s.Sent = append(s.Sent, u)
		}
	}
	for _, way := range p.ways {
		step := w.x.asStep(p.c, way.mv)
		s.Ways = append(s.Ways, Way{step.String(), way.to, way.broken})
	}
	return s, nil
}

// Script writes the shortest path to a state as a script of manual steps. If way is not -1, the
// move of that number follows.
func (w *Walk) Script(no, way int) (*scenario.Scenario, error) {
	if no < 0 || no >= len(w.places) || way < -1 || way >= len(w.places[no].ways) {
		return nil, fmt.Errorf("state %d, way %d: there is none", no, way)
	}
	var path []move
	if way >= 0 {
		path = append(path, w.places[no].ways[way].mv)
	}
	for ; w.places[no].from >= 0; no = w.places[no].from {
		path = append(path, w.places[no].mv)
	}
	slices.Reverse(path)
	return w.x.scenario(path), nil
}
