package explore

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

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
	c := Config{Algorithm: s.Setup.Algorithm, Option: s.Setup.Option, Crashes: count(scenario.Crash), Restarts: count(scenario.Restart), Suspicions: len(s.Steps), Initiators: count(scenario.Campaign)}
	if t, err := newTimed(maker, c, s.Setup.Members); t != nil || err != nil {
		if err != nil {
			return 0, err
		}
		t.log = log
		return t.play(s)
	}
	x, err := newExplorer(maker, c, s.Setup.Members)
	if err != nil {
		return 0, err
	}
	x.log = log
	return x.play(s)
}

// follow takes the steps of a script from the state at, unless v is a violation there already.
// asMove returns the move of a step, or why it is impossible; ticks is the time of the search.
func follow[S any](s *scenario.Scenario, x space[S], at S, v *invariant.Violation, asMove func(S, *scenario.Step) (move, string), ticks *time.Duration) (S, error) {
	for i := range s.Steps {
		if v != nil {
			break
		}
		step := &s.Steps[i]
		mv, why := asMove(at, step)
		if why != "" {
			return at, s.Unmet(step, *ticks, why)
		}
		at, v = x.after(at, mv)
	}
	if v != nil {
		return at, v
	}
	return at, nil
}

func (x *explorer) play(s *scenario.Scenario) (time.Duration, error) {
	first, v := x.first()
	at, err := follow(s, space[*state](x), first, v, x.asMove, &x.ticks)
	if err != nil {
		return 0, err
	}
	if v := x.rest(at, x.moves(at, nil)); v != nil {
		return 0, v
	}
	return x.ticks, nil
}

// asMove returns the move of a step, or why it is impossible.
func (x *explorer) asMove(c *state, s *scenario.Step) (move, string) {
	ids := slices.Clone(s.Members)
	for _, l := range s.Links {
		ids = append(ids, l.A, l.B)
	}
	mv := move{a: uint8(x.index(ids[0]))}
	if len(ids) > 1 {
		mv.b = uint8(x.index(ids[1]))
	}
	switch mv.kind = moveOf(untimedVerbs, s.Do); mv.kind {
	case deliverHead:
		if len(c.pipes[int(mv.a)*x.n+int(mv.b)]) == 0 {
			return mv, "nothing is on its way there"
		}
	case fireTimer:
		no := -1
		if m := c.machines[mv.a]; m != nil {
			no = slices.Index(m.timers, s.Word)
		}
		if no < 0 {
			return mv, "that timer is not armed"
		}
		mv.no = uint8(no)
	case 0:
		return mv, "a manual script of " + x.c.Algorithm + " has only deliver, fire, crash, restart, campaign, suspect, trust and beat"
	}
	return mv, ""
}
