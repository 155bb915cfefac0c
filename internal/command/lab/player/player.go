// Package player plays scenarios for the lab in the browser: it gives what a picture needs of a
// run, and writes what is done to members as lines of the scenario.
//
// It is compiled to WebAssembly by package wasm beside it, and has no clock, socket or file.
package player

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// Played is what a picture needs of a run. Times are in milliseconds since the start.
type Played struct {
	Fault   *Fault `json:"fault,omitempty"`   // the scenario cannot be read: nothing else is set
	Failure string `json:"failure,omitempty"` // a broken rule, or an expectation that did not come true

	Algorithm string   `json:"algorithm"`
	Probe     string   `json:"probe"`
	NoPreempt bool     `json:"noPreempt"`
	Seed      string   `json:"seed"`
	Ring      bool     `json:"ring"` // members pass on to a successor
	Timing    Timing   `json:"timing"`
	Members   []Member `json:"members"` // by rank, the lowest first
	Settled   *Settled `json:"settled,omitempty"`

	Elapsed float64  `json:"elapsed"`
	Leader  string   `json:"leader"`
	Events  []Event  `json:"events"`
	Flights []Flight `json:"flights"`
	Links   []Cut    `json:"links"`
	Waits   []Wait   `json:"waits"`
	Steps   []Step   `json:"steps"`
	More    bool     `json:"more"`  // Events and Flights end before the run does: there are too many
	Trace   string   `json:"trace"` // the very text of "batuta sim run --trace"
}

// Fault is why a scenario cannot be read.
type Fault struct {
	What string `json:"what"`
	Line int    `json:"line"` // from 1; 0: of no line in particular
	Col  int    `json:"col"`
}

// Timing is what members wait for, in milliseconds.
type Timing struct {
	Heartbeat float64 `json:"heartbeat"`
	TMax      float64 `json:"tMax"`
	TProcess  float64 `json:"tProcess"`
	T         float64 `json:"t"`
}

// Member is a member of the cluster.
type Member struct {
	ID       string `json:"id"`
	Priority int    `json:"priority"`
	Absent   bool   `json:"absent"` // not started at first
	Observer bool   `json:"observer"`
}

// Settled is the leadership in which all members begin, if the scenario sets it.
type Settled struct {
	Leader string `json:"leader"`
	Epoch  uint64 `json:"epoch"`
}

// Event is what a member did, or what was done to it.
type Event struct {
	At     float64 `json:"at"`
	Member int     `json:"m"` // its place in Members; -1: none, see the next field
	Who    string  `json:"who,omitempty"`
	What   string  `json:"what"`
	Peer   string  `json:"peer,omitempty"`
	Epoch  uint64  `json:"epoch,omitempty"`
	Leader string  `json:"leader,omitempty"`
	Named  string  `json:"election,omitempty"` // the named election that it is about
	Why    string  `json:"why,omitempty"`
	Fault  bool    `json:"fault,omitempty"`
	Cause  int     `json:"cause"` // the flight that arrived at that instant; -1: none
}

// Flight is a message on its way.
type Flight struct {
	Kind      string  `json:"kind"`
	From      int     `json:"from"`
	To        int     `json:"to"`
	Sent      float64 `json:"sent"`
	Arrived   float64 `json:"arrived"`        // -1: not within the run
	Drop      string  `json:"drop,omitempty"` // why it was dropped on arrival
	Epoch     uint64  `json:"epoch,omitempty"`
	Leader    string  `json:"leader,omitempty"`
	Round     uint64  `json:"round,omitempty"`
	Initiator string  `json:"initiator,omitempty"`
	Ring      string  `json:"ring,omitempty"` // the ids that it carries, on a ring
	Cause     int     `json:"cause"`          // as of an Event
}

// Cut is a direction of a link between two times.
type Cut struct {
	From  int     `json:"from"`
	To    int     `json:"to"`
	Since float64 `json:"since"`
	Until float64 `json:"until"` // -1: to the end
}

// Wait is a time that runs out at a member.
type Wait struct {
	Member int     `json:"m"`
	For    string  `json:"for"` // leader, lease, promise, answers, campaign or votes
	Peer   string  `json:"peer,omitempty"`
	From   float64 `json:"from"`
	Until  float64 `json:"until"`
	Ended  float64 `json:"ended"` // when it changed; the run's end if it did not
	Got    int     `json:"got,omitempty"`
	Need   int     `json:"need,omitempty"`
}

// Step is a line of the scenario, and when it was taken.
type Step struct {
	Line int     `json:"line"`
	Text string  `json:"text"`
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// maxDrawn bounds what is kept of a run for the picture.
const maxDrawn = 400_000

// name stands for the file in errors.
const name = "scenario"

// Play plays a scenario. A golden trace behind it is not compared.
func Play(text string) *Played {
	s, err := scenario.Parse(name, text)
	if err == nil {
		_, err = algorithm.Maker(s.Setup.Algorithm, s.Setup.Option)
	}
	if err != nil {
		return &Played{Fault: faultOf(err)}
	}
	r := newRecorder(s)
	log := trace.Log{Messages: s.Messages}
	outcome, failure := sim.Play(s, algorithm.Maker, func(e trace.Entry) {
		log.Add(e)
		r.add(&e)
	})
	if failure != nil && !told(failure) {
		return &Played{Fault: faultOf(failure)}
	}
	p := r.played
	if failure != nil {
		p.Failure = failure.Error()
	}
	p.Elapsed, p.Leader, p.Trace = ms(outcome.Elapsed), string(outcome.Leader), log.Text()
	if s.Setup.Manual && len(p.Events) > 0 {
		p.Elapsed = max(p.Elapsed, p.Events[len(p.Events)-1].At)
	}
	p.Steps = stepsOf(s, &outcome)
	p.Links = cutsOf(s, &outcome, r.index)
	p.Waits = waitsOf(&outcome, r.index)
	return p
}

// faultOf is the first thing that is wrong.
func faultOf(err error) *Fault {
	if p, ok := errors.AsType[*scenario.ParseError](err); ok {
		return &Fault{p.What, p.Line, p.Col}
	}
	return &Fault{What: err.Error()}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// recorder turns entries of a trace into events and flights.
type recorder struct {
	played  *Played
	index   map[election.ID]int
	flights map[uint64]int // by their number: those that have not arrived
	heard   []receipt      // by member: what arrived last
}

type receipt struct {
	flight int
	at     time.Duration
}

func newRecorder(s *scenario.Scenario) *recorder {
	filled := s.Setup.Filled()
	t := filled.Timing
	a, _ := algorithm.New(s.Setup.Algorithm, s.Setup.Option) // Play has looked
	_, isRing := a.(interface{ Successor() election.ID })
	p := &Played{
		Algorithm: s.Setup.Algorithm, Probe: s.Setup.Option, NoPreempt: s.Setup.NoPreempt,
		Seed: strconv.FormatUint(s.Setup.Seed, 10), Ring: isRing,
		Timing: Timing{ms(t.Heartbeat), ms(t.TMax), ms(t.TProcess), ms(t.T())},
		Events: []Event{}, Flights: []Flight{},
	}
	r := &recorder{played: p, index: map[election.ID]int{}, flights: map[uint64]int{}}
	for i, m := range s.Setup.Members {
		r.index[m.ID] = i
		p.Members = append(p.Members, Member{ID: string(m.ID), Priority: m.Priority,
			Absent: slices.Contains(s.Setup.Absent, m.ID) || slices.Contains(s.Setup.Newcomers, m.ID), Observer: slices.Contains(s.Setup.Observers, m.ID)})
		r.heard = append(r.heard, receipt{flight: -1})
	}
	if s.Setup.Settled {
		p.Settled = &Settled{string(s.Setup.SettledLeader().ID), 1}
	}
	return r
}

func (r *recorder) add(e *trace.Entry) {
	p := r.played
	if len(p.Events)+len(p.Flights) >= maxDrawn {
		p.More = true
		return
	}
	m, known := r.index[e.Member]
	if !known {
		m = -1
	}
	if e.Message == nil {
		ev := Event{At: ms(e.At), Member: m, What: e.What, Peer: string(e.Peer), Epoch: e.Token.Epoch, Named: e.Named,
			Leader: string(e.Token.Leader.ID), Why: e.Why, Fault: e.Fault, Cause: r.cause(m, e)}
		if m < 0 {
			ev.Who = string(e.Member)
		}
		p.Events = append(p.Events, ev)
		return
	}
	to, ok := r.index[e.Peer]
	if m < 0 || !ok {
		return // a second claimant of an id, which has no place in the picture
	}
	if e.What == "sends" {
		r.sends(m, to, e)
		return
	}
	i, ok := r.flights[e.Flight]
	if !ok {
		return
	}
	delete(r.flights, e.Flight)
	f := &p.Flights[i]
	f.Arrived = ms(e.At)
	if e.What == "drops" {
		f.Drop = e.Why
		return
	}
	r.heard[m] = receipt{i, e.At}
}

func (r *recorder) sends(from, to int, e *trace.Entry) {
	m := e.Message
	f := Flight{Kind: string(m.Kind), From: from, To: to, Sent: ms(e.At), Arrived: -1,
		Epoch: m.Token.Epoch, Leader: string(m.Token.Leader.ID), Round: m.Round.Number, Initiator: string(m.Round.Initiator),
		Cause: r.cause(from, e)}
	for i, rank := range m.Ring {
		if i > 0 {
			f.Ring += " "
		}
		f.Ring += string(rank.ID)
	}
	r.flights[e.Flight] = len(r.played.Flights)
	r.played.Flights = append(r.played.Flights, f)
}

// cause is the message that made a member do what it does in the same instant.
func (r *recorder) cause(m int, e *trace.Entry) int {
	if m < 0 || e.Fault || r.heard[m].flight < 0 || r.heard[m].at != e.At {
		return -1
	}
	return r.heard[m].flight
}
