package explore

import (
	"fmt"
	"slices"

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
	ranks, err := c.members()
	if err != nil {
		return nil, err
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

// Walked is the progress of a walk.
type Walked struct {
	States   int  `json:"states"`   // reached
	Expanded int  `json:"expanded"` // states with all moves out of them
	Depth    int  `json:"depth"`    // moves to the farthest state
	More     bool `json:"more"`     // some states have not been expanded
	Cut      bool `json:"cut"`      // Config.States has been reached: later states are left out
	Broken   int  `json:"broken"`   // a state that breaks a rule, itself or by its next move, on a shortest path; -1: none so far
}

// Grow finds the moves out of n more states, in the order in which they were reached.
func (w *Walk) Grow(n int) Walked {
	for ; n > 0 && w.expanded < len(w.places); n-- {
		w.expand(w.expanded)
		w.expanded++
	}
	k := len(w.places)
	return Walked{k, w.expanded, w.places[k-1].depth, w.expanded < k, w.cut, w.broken}
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

// Place is a state for display.
type Place struct {
	Error   string     `json:"error,omitempty"` // there is no such state; nothing else is set
	No      int        `json:"no"`
	Depth   int        `json:"depth"` // moves from the first state
	From    int        `json:"from"`  // the state from which it was first reached; -1: it is the first
	Rests   bool       `json:"rests"`
	Broken  string     `json:"broken,omitempty"` // by the state itself, at rest
	Members []Standing `json:"members"`
	Sent    []Underway `json:"sent"` // on their way, the oldest of each link first
	Ways    []Way      `json:"ways"` // empty: not computed yet
}

// Standing is a member in a state.
type Standing struct {
	ID     election.ID `json:"id"`
	Dead   bool        `json:"dead"`
	Leader election.ID `json:"leader"` // "": it follows no member
	Epoch  uint64      `json:"epoch"`  // of that leadership
	Held   uint64      `json:"held"`   // the epoch on its disk
	Timers []string    `json:"timers"` // armed
}

// Underway is a message on its way; Kind is "" for the end of the connection.
type Underway struct {
	From   election.ID          `json:"from"`
	To     election.ID          `json:"to"`
	Kind   election.MessageKind `json:"kind"`
	Epoch  uint64               `json:"epoch"`
	Leader election.ID          `json:"leader"`
}

// Way is a move out of a state.
type Way struct {
	Step   string `json:"step"` // as a line of a script
	To     int    `json:"to"`   // -1: it breaks a rule or is left out
	Broken string `json:"broken,omitempty"`
}

// Place returns a state for display.
func (w *Walk) Place(no int) Place {
	if no < 0 || no >= len(w.places) {
		return Place{Error: fmt.Sprintf("state %d: there are 0 to %d", no, len(w.places)-1)}
	}
	p := w.places[no]
	s := Place{No: no, Depth: p.depth, From: p.from, Rests: p.rests, Broken: text(p.broken), Sent: []Underway{}, Ways: []Way{}}
	for i, r := range w.x.ranks {
		told := p.c.told[i]
		m := Standing{ID: r.ID, Dead: p.c.machines[i] == nil, Leader: told.Leader.ID, Epoch: told.Epoch, Held: p.c.disks[i].Epoch, Timers: []string{}}
		if !m.Dead {
			m.Timers = append(m.Timers, p.c.machines[i].timers...)
		}
		s.Members = append(s.Members, m)
	}
	for link, pipe := range p.c.pipes {
		for _, e := range pipe {
			u := Underway{From: w.x.ranks[link/w.x.n].ID, To: w.x.ranks[link%w.x.n].ID}
			if e != goodbye {
				u.Kind, u.Epoch, u.Leader = e.m.Kind, e.m.Token.Epoch, e.m.Token.Leader.ID
			}
			s.Sent = append(s.Sent, u)
		}
	}
	for _, way := range p.ways {
		step := w.x.asStep(p.c, way.mv)
		s.Ways = append(s.Ways, Way{step.String(), way.to, text(way.broken)})
	}
	return s
}

func text(v *invariant.Violation) string {
	if v == nil {
		return ""
	}
	return v.Error()
}

// Graph is all that has been reached.
type Graph struct {
	Depths []int    `json:"depths"` // of each state
	Edges  [][2]int `json:"edges"`  // between states, each once; only out of the first maxDrawn
	Broken []int    `json:"broken"` // states that break a rule, themselves or by their next move
}

// maxDrawn is how many states a page draws.
const maxDrawn = 700

// Graph returns what has been reached so far.
func (w *Walk) Graph() Graph {
	g := Graph{Depths: []int{}, Edges: [][2]int{}, Broken: []int{}}
	for no, p := range w.places {
		g.Depths = append(g.Depths, p.depth)
		bad := p.broken != nil
		seen := map[int]bool{}
		for _, way := range p.ways {
			bad = bad || way.broken != nil
			if way.to >= 0 && !seen[way.to] && no < maxDrawn {
				seen[way.to] = true
				g.Edges = append(g.Edges, [2]int{no, way.to})
			}
		}
		if bad {
			g.Broken = append(g.Broken, no)
		}
	}
	return g
}

// Script writes the shortest path to a state as a script of manual steps. If way is not -1, the
// move of that number follows.
func (w *Walk) Script(no, way int) (string, error) {
	if no < 0 || no >= len(w.places) || way < -1 || way >= len(w.places[no].ways) {
		return "", fmt.Errorf("state %d, way %d: there is none", no, way)
	}
	var path []move
	if way >= 0 {
		path = append(path, w.places[no].ways[way].mv)
	}
	for ; w.places[no].from >= 0; no = w.places[no].from {
		path = append(path, w.places[no].mv)
	}
	slices.Reverse(path)
	return w.x.scenario(path).String(), nil
}
