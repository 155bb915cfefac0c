package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// This file converts paths of a search into scripts, and back.

// moveKind is the kind of a move.
type moveKind uint8

const (
	deliverHead  moveKind = iota + 1 // the oldest message from a to b arrives
	fireTimer                        // a's timer of that name expires
	crashMember                      // a crashes
	startMember                      // a returns with its file
	suspectPeer                      // a's detector reports that b is down
	trustPeer                        // a's detector takes that back
	beatPeer                         // a leads and sends a heartbeat to b, which has a different leader
	callElection                     // a's user requests an election

	// Of cores that measure time themselves:
	stopMember // a is stopped
	wakeMember // a goes on
	passTime   // up to the next moment at which a member has something to do
)

type move struct {
	kind moveKind
	a, b uint8
	no   uint8 // of the timer, among those armed at a
}

// These map the moves of a search to verbs: of cores that measure time, and of those that do not.
var (
	timedVerbs = map[moveKind]scenario.Verb{
		deliverHead: scenario.Deliver, crashMember: scenario.Crash, startMember: scenario.Restart,
		stopMember: scenario.Freeze, wakeMember: scenario.Thaw, passTime: scenario.Pass,
	}
	untimedVerbs = map[moveKind]scenario.Verb{
		deliverHead: scenario.Deliver, fireTimer: scenario.Fire, crashMember: scenario.Crash, startMember: scenario.Restart,
		callElection: scenario.Campaign, suspectPeer: scenario.Suspect, trustPeer: scenario.Trust, beatPeer: scenario.Beat,
	}
)

// script writes a path of a search as a script of manual steps.
func script[S any](x space[S], path []move) *scenario.Scenario {
	k := x.shared()
	s := &scenario.Scenario{Name: "explored", Messages: true, Setup: scenario.Setup{Algorithm: k.c.Algorithm, Option: k.c.Option,
		Members: k.ranks, NoDetector: true, Settled: true, Manual: true}}
	x = x.fork()
	at, _ := x.first()
	for _, mv := range path {
		s.Steps = append(s.Steps, asStep(x, at, mv))
		at, _ = x.after(at, mv) // only the last may break a rule
	}
	return s
}

func asStep[S any](x space[S], at S, mv move) scenario.Step {
	k := x.shared()
	a, b := k.ranks[mv.a].ID, k.ranks[mv.b].ID
	step := scenario.Step{Do: k.verbs[mv.kind], Members: []election.ID{a}}
	switch mv.kind {
	case deliverHead, beatPeer:
		step.Members, step.Links = nil, []scenario.Link{{A: a, B: b}}
	case fireTimer:
		step.Word = x.timers(at, int(mv.a))[mv.no]
	case suspectPeer, trustPeer:
		step.Members = []election.ID{a, b}
	case passTime:
		step.Members = nil
	}
	return step
}

// asMove returns the move of a step, or why it is impossible.
func asMove[S any](x space[S], at S, s *scenario.Step) (mv move, why string) {
	k := x.shared()
	for kind, verb := range k.verbs {
		if verb == s.Do {
			mv.kind = kind
		}
	}
	ids := slices.Clone(s.Members)
	for _, l := range s.Links {
		ids = append(ids, l.A, l.B)
	}
	if len(ids) > 0 {
		mv.a = uint8(k.index(ids[0]))
	}
	if len(ids) > 1 {
		mv.b = uint8(k.index(ids[1]))
	}
	switch mv.kind {
	case deliverHead:
		if !slices.Contains(x.moves(at, nil), mv) {
			why = "nothing is on its way there, or it is stopped"
		}
	case fireTimer:
		no := slices.Index(x.timers(at, int(mv.a)), s.Word)
		if no < 0 {
			return mv, "that timer is not armed"
		}
		mv.no = uint8(no)
	case 0:
		why = "a manual script of " + k.c.Algorithm + " has only " + k.spelled
	}
	return mv, why
}

// Play plays a manual script, in which nothing happens by itself: each delivery and each timer is a
// step, as in the scripts of [Search]. It returns the time that passed, a millisecond per step.
func Play(s *scenario.Scenario, maker scenario.Maker, log func(trace.Entry)) (time.Duration, error) {
	if len(s.Setup.Members) > maxExplored {
		return 0, fmt.Errorf("%s: %d members: a manual script has at most %d", s.Name, len(s.Setup.Members), maxExplored)
	}
	count := func(do scenario.Verb) (n int) {
		for _, step := range s.Steps {
			if step.Do == do {
				n++
			}
		}
		return n
	}
	c := Config{Algorithm: s.Setup.Algorithm, Option: s.Setup.Option, Crashes: count(scenario.Crash), Restarts: count(scenario.Restart),
		Suspicions: min(len(s.Steps), 100), Initiators: count(scenario.Campaign)}
	k, timed, err := newCluster(maker, c, s.Setup.Members)
	if err != nil {
		return 0, err
	}
	if timed {
		x, err := newTimed(k)
		return play(x, s, log, err)
	}
	x, err := newUntimed(k)
	return play(x, s, log, err)
}

// play takes the steps of a script.
func play[S any](x space[S], s *scenario.Scenario, log func(trace.Entry), err error) (time.Duration, error) {
	if err != nil {
		return 0, err
	}
	k := x.shared()
	k.log = log
	at, v := x.first()
	for i := 0; i < len(s.Steps) && v == nil; i++ {
		mv, why := asMove(x, at, &s.Steps[i])
		if why != "" {
			return 0, s.Unmet(&s.Steps[i], k.ticks, why)
		}
		at, v = x.after(at, mv)
	}
	if v == nil && x.rests(at, x.moves(at, nil)) {
		v = x.atRest(at)
	}
	if v != nil {
		return 0, v
	}
	return k.ticks, nil
}
