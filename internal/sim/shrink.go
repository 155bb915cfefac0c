package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Shrink shortens a scenario that breaks a rule while it still breaks the same rule. It returns
// the result with its violation, which is nil if s breaks no rule.
func Shrink(s *scenario.Scenario, maker scenario.Maker) (*scenario.Scenario, *invariant.Violation) {
	k := shrinker{maker: maker, plays: 4000}
	v := k.violation(s)
	if v == nil {
		return s, nil
	}
	k.rule, k.best, k.found = v.Rule, s, v
	for before := -1; before != k.size() && k.plays > 0; {
		before = k.size()
		k.dropSteps()
		k.dropMembers()
		k.shorten()
		k.simplify()
	}
	return k.best, k.found
}

type shrinker struct {
	maker scenario.Maker
	rule  string
	best  *scenario.Scenario
	found *invariant.Violation
	plays int // how many more may be tried
}

func (k *shrinker) violation(s *scenario.Scenario) *invariant.Violation {
	k.plays--
	_, err := playSafely(newStory(), s, k.maker)
	v, _ := errors.AsType[*invariant.Violation](err)
	return v
}

// size falls with every improvement except a change of settings.
func (k *shrinker) size() int {
	n := 0
	for _, s := range k.best.Steps {
		n += 1_000_000 + int(s.For/time.Millisecond)
	}
	return n + len(k.best.Setup.Members)
}

// try keeps a change if the rule is still broken.
func (k *shrinker) try(change func(*scenario.Scenario)) bool {
	if k.plays <= 0 {
		return false
	}
	s := *k.best
	s.Steps = slices.Clone(s.Steps)
	s.Setup.Members = slices.Clone(s.Setup.Members)
	change(&s)
	if _, err := s.Check(); err != nil || s.Setup.Validate() != nil || tooFar(&s) && !tooFar(k.best) {
		return false
	}
	v := k.violation(&s)
	if v == nil || v.Rule != k.rule {
		return false
	}
	k.best, k.found = &s, v
	return true
}

// tooFar reports whether a link is slower than t_max. Then nothing is promised, and a violation
// differs from that with the former times.
func tooFar(s *scenario.Scenario) bool {
	f := s.Setup.Filled()
	return f.Latency.Max > f.Timing.TMax ||
		slices.ContainsFunc(f.Links, func(l scenario.LinkLatency) bool { return l.Max > f.Timing.TMax })
}

// dropSteps leaves out runs of steps, long runs first.
func (k *shrinker) dropSteps() {
	for n := len(k.best.Steps) / 2; n > 0; n /= 2 {
		for at := len(k.best.Steps) - n; at >= 0; at-- {
			if at+n <= len(k.best.Steps) {
				k.try(func(s *scenario.Scenario) { s.Steps = slices.Delete(s.Steps, at, at+n) })
			}
		}
	}
}

// dropMembers leaves out members that no step needs.
func (k *shrinker) dropMembers() {
	for i := len(k.best.Setup.Members) - 1; i >= 0 && len(k.best.Setup.Members) > 1; i-- {
		k.try(func(s *scenario.Scenario) { s.Drop(s.Setup.Members[i].ID) })
	}
}

// shorten makes times short and round.
func (k *shrinker) shorten() {
	for i := range k.best.Steps {
		d := k.best.Steps[i].For
		for _, shorter := range []time.Duration{time.Millisecond, d / 4, d / 2, d * 3 / 4,
			d.Truncate(100 * time.Millisecond), d.Truncate(10 * time.Millisecond), d.Truncate(time.Millisecond)} {
			if shorter > 0 && shorter < k.best.Steps[i].For {
				if k.try(func(s *scenario.Scenario) { s.Steps[i].For = shorter }) {
					break
				}
			}
		}
	}
}

// simplify returns settings to their defaults.
func (k *shrinker) simplify() {
	for _, change := range scenario.Simpler() {
		k.try(func(s *scenario.Scenario) { change(&s.Setup) })
	}
}
