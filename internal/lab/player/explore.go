package player

import (
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// ExploreConfig is what to explore.
type ExploreConfig struct {
	Algorithm  string `json:"algorithm"`
	Probe      string `json:"probe"`
	Nodes      int    `json:"nodes"`
	Crashes    int    `json:"crashes"`
	Restarts   int    `json:"restarts"`
	Suspicions int    `json:"suspicions"`
	Initiators int    `json:"initiators"`
}

// maxStates is how many states a page keeps: some hundred megabytes.
const maxStates = 40_000

// Explored is how far an exploration has come.
type Explored struct {
	Error    string `json:"error,omitempty"`
	States   int    `json:"states"`
	Expanded int    `json:"expanded"`
	Depth    int    `json:"depth"`
	More     bool   `json:"more"`   // some states have not been expanded
	Cut      bool   `json:"cut"`    // there are more than a page keeps
	Broken   int    `json:"broken"` // a state that breaks a rule, or from which a step leads to that; -1: none
}

// Place is a state of an exploration, as the page draws it.
type Place struct {
	Error   string           `json:"error,omitempty"`
	No      int              `json:"no"`
	Depth   int              `json:"depth"`
	From    int              `json:"from"`
	Rests   bool             `json:"rests"`
	Broken  string           `json:"broken,omitempty"`
	Members []ExploredMember `json:"members"`
	Sent    []Underway       `json:"sent"`
	Ways    []Way            `json:"ways"`
}

// ExploredMember is a member in a state.
type ExploredMember struct {
	ID     string   `json:"id"`
	Dead   bool     `json:"dead"`
	Leader string   `json:"leader"` // "": none
	Epoch  uint64   `json:"epoch"`
	Held   uint64   `json:"held"` // the epoch on its disk
	Timers []string `json:"timers"`
}

// Underway is a message on its way; its kind is "" for the end of a connection.
type Underway struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Kind   string `json:"kind"`
	Epoch  uint64 `json:"epoch"`
	Leader string `json:"leader"`
}

// Way is what may happen in a state, and what comes of it.
type Way struct {
	Step   string `json:"step"`
	To     int    `json:"to"` // -1: it breaks a rule, or is left out
	Broken string `json:"broken,omitempty"`
}

// Exploration walks through every order of events of a small cluster.
type Exploration struct{ walk *explore.Walk }

// Explore begins a search.
func Explore(c ExploreConfig) (*Exploration, error) {
	w, err := explore.NewWalk(algorithm.Maker, explore.Config{Algorithm: c.Algorithm, Option: c.Probe, Nodes: min(c.Nodes, 4),
		Crashes: c.Crashes, Restarts: c.Restarts, Suspicions: c.Suspicions, Initiators: c.Initiators,
		OwnRounds: c.Algorithm == "bully", States: maxStates})
	if err != nil {
		return nil, err
	}
	return &Exploration{w}, nil
}

// Grow looks for what may happen in n more states.
func (e *Exploration) Grow(n int) Explored {
	more := e.walk.Grow(n)
	w := e.walk.Walked()
	return Explored{States: w.States, Expanded: w.Expanded, Depth: w.Depth, More: more, Cut: w.Cut, Broken: w.Broken}
}

// Place shows a state.
func (e *Exploration) Place(no int) Place {
	p, err := e.walk.Place(no)
	if err != nil {
		return Place{Error: err.Error()}
	}
	s := Place{No: no, Depth: p.Depth, From: p.From, Rests: p.Rests, Broken: violation(p.Broken), Members: []ExploredMember{}, Sent: []Underway{}, Ways: []Way{}}
	for _, m := range p.Members {
		s.Members = append(s.Members, ExploredMember{string(m.ID), m.Dead, string(m.Leader.Leader.ID), m.Leader.Epoch, m.Held.Epoch, append([]string{}, m.Timers...)})
	}
	for _, u := range p.Sent {
		s.Sent = append(s.Sent, Underway{string(u.From), string(u.To), string(u.Kind), u.Token.Epoch, string(u.Token.Leader.ID)})
	}
	for _, w := range p.Ways {
		s.Ways = append(s.Ways, Way{w.Step, w.To, violation(w.Broken)})
	}
	return s
}

func violation(v *invariant.Violation) string {
	if v == nil {
		return ""
	}
	return v.Error()
}

// Script is the shortest way to a state as a scenario.
func (e *Exploration) Script(no, way int) (string, error) {
	s, err := e.walk.Script(no, way)
	if err != nil {
		return "", err
	}
	return s.String(), nil
}

// Graph is all that has been reached.
type Graph struct {
	Depths []int    `json:"depths"` // of each state
	Edges  [][2]int `json:"edges"`  // from state to state, once; of a graph that is too large to be drawn none
	Broken []int    `json:"broken"` // states that break a rule, or from which a step leads to that
}

// maxDrawnStates is how many states a page draws.
const maxDrawnStates = 700

// Graph gives what has been reached so far.
func (e *Exploration) Graph() Graph {
	g := Graph{Depths: []int{}, Edges: [][2]int{}, Broken: []int{}}
	for no := range e.walk.Walked().States {
		p, err := e.walk.Place(no)
		if err != nil {
			break
		}
		g.Depths = append(g.Depths, p.Depth)
		bad := p.Broken != nil
		seen := map[int]bool{}
		for _, w := range p.Ways {
			bad = bad || w.Broken != nil
			if w.To >= 0 && !seen[w.To] && len(g.Depths) <= maxDrawnStates {
				seen[w.To] = true
				g.Edges = append(g.Edges, [2]int{no, w.To})
			}
		}
		if bad {
			g.Broken = append(g.Broken, no)
		}
	}
	return g
}
