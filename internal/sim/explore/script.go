package explore

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file converts paths through a search of cores that measure time into scripts, and back.

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

// moveOf returns the move of a verb; 0: it has none.
func moveOf(verbs map[moveKind]scenario.Verb, do scenario.Verb) (kind moveKind) {
	for k, verb := range verbs {
		if verb == do {
			kind = k
		}
	}
	return kind
}

// scenario writes a path of the search as a script of manual steps.
func (x *timed) scenario(path []move) *scenario.Scenario {
	s := &scenario.Scenario{Name: "explored", Messages: true, Setup: scenario.Setup{Algorithm: x.c.Algorithm, Option: x.c.Option,
		Members: x.ranks, NoDetector: true, Settled: true, Manual: true}}
	for _, mv := range path {
		step := scenario.Step{Do: timedVerbs[mv.kind]}
		switch a := x.ranks[mv.a].ID; mv.kind {
		case deliverHead:
			step.Links = []scenario.Link{{A: a, B: x.ranks[mv.b].ID}}
		case passTime:
		default:
			step.Members = []election.ID{a}
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

// play takes the steps of a script.
func (x *timed) play(s *scenario.Scenario) (time.Duration, error) {
	x.store.silent = true
	first, v := x.first()
	x.store.silent, x.ticks = x.log == nil, 0
	first.stops = int8(min(len(s.Steps), 100))
	if _, err := follow(s, space[*cluster](x), first, v, x.asMove, &x.ticks); err != nil {
		return 0, err
	}
	return x.ticks, nil
}

// asMove returns the move of a step, or why it is impossible.
func (x *timed) asMove(c *cluster, s *scenario.Step) (mv move, why string) {
	mv.kind = moveOf(timedVerbs, s.Do)
	if len(s.Members) > 0 {
		mv.a = uint8(x.index(s.Members[0]))
	}
	for _, l := range s.Links {
		mv.a, mv.b = uint8(x.index(l.A)), uint8(x.index(l.B))
	}
	switch {
	case mv.kind == 0:
		return mv, "a manual script of " + x.c.Algorithm + " has only deliver, pass, crash, restart, freeze and thaw"
	case mv.kind == deliverHead && (len(c.pipes[int(mv.a)*x.n+int(mv.b)]) == 0 || !c.runs(int(mv.b))):
		return mv, "nothing is on its way there, or it is stopped"
	}
	return mv, ""
}
