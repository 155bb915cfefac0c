package explore

import (
	"fmt"
	"slices"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Walk is a search that keeps the states it reaches, for people to walk through. Each state is a
// number, from 0. It is for small clusters; Config.States limits it.
type Walk struct {
	x        *untimed
	e        expander[*untimedState]
	places   []place
	expanded int
}

// place is a state, and what was found there.
type place struct {
	c     *untimedState
	depth int
	outcome
}

// NewWalk begins a search.
func NewWalk(maker scenario.Maker, c Config) (*Walk, error) {
	ranks, err := c.members()
	if err != nil {
		return nil, err
	}
	k, timed, err := newCluster(maker, c, ranks)
	if timed {
		err = fmt.Errorf("algorithm %s cannot be walked through: its states are kept as ways to them; batuta sim explore searches them", c.Algorithm)
	}
	if err != nil {
		return nil, err
	}
	x, err := newUntimed(k)
	if err != nil {
		return nil, err
	}
	s, first, v := begin(x, c.States)
	if v != nil {
		return nil, v
	}
	return &Walk{x: x, e: expander[*untimedState]{search: s, x: x}, places: []place{{c: first}}}, nil
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
	r := Walked{k, w.expanded, w.places[k-1].depth, w.expanded < k, w.e.cut.Load(), -1}
	if b := w.e.broken; b != nil {
		r.Broken = int(b.from)
	}
	return r
}

func (w *Walk) expand(no int) {
	p := &w.places[no]
	w.e.found = w.e.found[:0]
	w.e.expand(reached[*untimedState]{p.c, uint32(no)})
	p.outcome = w.e.outcome
	p.edges = slices.Clone(p.edges)
	depth := p.depth + 1
	for _, f := range w.e.found {
		w.places = append(w.places, place{c: f.c, depth: depth})
	}
}

// number writes none as -1, as a page reads it.
func number(no uint32) int {
	if no == none {
		return -1
	}
	return int(no)
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
	s := Place{No: no, Depth: p.depth, From: number(w.e.parents[no].parent), Rests: p.rests, Broken: text(p.wrong), Sent: []Underway{}, Ways: []Way{}}
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
	for _, way := range p.edges {
		step := asStep(w.e.x, p.c, way.move)
		s.Ways = append(s.Ways, Way{step.String(), number(way.to), text(way.broken)})
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
		bad := p.wrong != nil
		seen := map[uint32]bool{none: true}
		for _, way := range p.edges {
			bad = bad || way.broken != nil
			if !seen[way.to] && no < maxDrawn {
				seen[way.to] = true
				g.Edges = append(g.Edges, [2]int{no, int(way.to)})
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
	if no < 0 || no >= len(w.places) || way < -1 || way >= len(w.places[no].edges) {
		return "", fmt.Errorf("state %d, way %d: there is none", no, way)
	}
	path := w.e.path(uint32(no))
	if way >= 0 {
		path = append(path, w.places[no].edges[way].move)
	}
	return script(w.e.x, path).String(), nil
}
