package player

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// after is how much of a run there is at least behind what was done last.
const after = 3 * time.Second

// told reports that a run ended with a finding, and not because it is impossible.
func told(err error) bool {
	_, broken := errors.AsType[*invariant.Violation](err)
	_, unmet := errors.AsType[*scenario.Unmet](err)
	return broken || unmet
}

// stepsOf returns when each step was taken; the step that failed ends with the run.
func stepsOf(s *scenario.Scenario, o *sim.Outcome) []Step {
	list := []Step{}
	var from time.Duration
	for i := range s.Steps {
		to := o.Elapsed
		switch {
		case i < len(o.Ended):
			to = o.Ended[i]
		case s.Setup.Manual:
			to = time.Duration(i+1) * time.Millisecond
		case i > len(o.Ended):
			return list
		}
		list = append(list, Step{s.Steps[i].Line, s.Steps[i].String(), ms(from), ms(to)})
		from = to
	}
	return list
}

// waitsOf has what ran out at the members in the picture.
func waitsOf(o *sim.Outcome, index map[election.ID]int) []Wait {
	list := []Wait{}
	for _, x := range o.Waits[:min(len(o.Waits), maxDrawn)] {
		if m, ok := index[x.Member]; ok {
			list = append(list, Wait{m, x.What.For, string(x.What.Peer), ms(x.From), ms(x.Until), ms(min(x.Ended, o.Elapsed)), x.What.Got, x.What.Need})
		}
	}
	return list
}

// cutsOf follows the cuts of links through the steps.
func cutsOf(s *scenario.Scenario, o *sim.Outcome, index map[election.ID]int) []Cut {
	c := cuts{index: index, open: map[[2]int]int{}, list: []Cut{}}
	for i := range s.Steps {
		if i < len(o.Ended) {
			c.step(&s.Steps[i], ms(o.Ended[i]), s, i, o)
		}
	}
	return c.list
}

type cuts struct {
	index map[election.ID]int
	open  map[[2]int]int // by ends: its place in list
	list  []Cut
}

func (c *cuts) step(step *scenario.Step, at float64, s *scenario.Scenario, i int, o *sim.Outcome) {
	switch step.Do {
	case scenario.Cut:
		for _, l := range step.Links {
			c.each(l, func(a, b int) { c.cut(a, b, at) })
		}
	case scenario.Partition:
		for k, side := range step.Sides {
			for _, other := range step.Sides[k+1:] {
				for _, a := range side {
					for _, b := range other {
						c.each(scenario.Link{A: a, B: b, Both: true}, func(a, b int) { c.cut(a, b, at) })
					}
				}
			}
		}
	case scenario.Heal:
		for _, l := range step.Links {
			c.each(l, func(a, b int) { c.heal(a, b, at) })
		}
		if len(step.Links) == 0 {
			c.healAll(at)
		}
	case scenario.Settle:
		if step.Word != scenario.ButCuts { // it begins by ending every fault
			from := 0.0
			if i > 0 {
				from = ms(o.Ended[i-1])
			}
			c.healAll(from)
		}
	}
}

func (c *cuts) each(l scenario.Link, do func(a, b int)) {
	a, b := c.index[l.A], c.index[l.B]
	do(a, b)
	if l.Both {
		do(b, a)
	}
}

func (c *cuts) cut(a, b int, at float64) {
	if _, ok := c.open[[2]int{a, b}]; ok {
		return
	}
	c.open[[2]int{a, b}] = len(c.list)
	c.list = append(c.list, Cut{a, b, at, -1})
}

func (c *cuts) heal(a, b int, at float64) {
	if i, ok := c.open[[2]int{a, b}]; ok {
		c.list[i].Until = at
		delete(c.open, [2]int{a, b})
	}
}

func (c *cuts) healAll(at float64) {
	for ends := range c.open {
		c.heal(ends[0], ends[1], at)
	}
}

// Insert writes line into a scenario so that it is done at that time and what comes before
// stays as it is. A golden trace is left out: it is that of the scenario before.
func Insert(text string, at time.Duration, line string) (string, error) {
	text = plain(text)
	s, err := scenario.Parse(name, text)
	if err != nil {
		return "", err
	}
	if s.Setup.Manual {
		return "", errors.New("in a manual scenario nothing happens by itself: write the line yourself")
	}
	o, err := sim.Play(s, algorithm.Maker, func(trace.Entry) {})
	if err != nil && !told(err) {
		return "", err
	}
	at = max(at, 0).Round(time.Microsecond)
	for i := range s.Steps {
		if i < len(o.Ended) && o.Ended[i] <= at {
			continue
		}
		if err != nil && i >= len(o.Ended) { // where it failed, or behind
			break
		}
		var from time.Duration
		if i > 0 {
			from = o.Ended[i-1]
		}
		return insertAt(s, text, i, from, o.Ended[i], at, line)
	}
	return appendTo(text, o.Elapsed, at, line), nil
}

// plain is a scenario without its golden trace, and with a single line feed at its end.
func plain(text string) string {
	script, _, _ := strings.Cut("\n"+strings.ReplaceAll(text, "\r\n", "\n"), "\n----\n")
	return strings.TrimRight(strings.TrimPrefix(script, "\n"), " \t\n") + "\n"
}

func appendTo(text string, elapsed, at time.Duration, line string) string {
	if at > elapsed {
		line = fmt.Sprintf("at %v %s", at, line)
	}
	return text + line + "\nrun " + after.String() + "\n"
}

// insertAt writes line into step i, which lasts between the two times.
func insertAt(s *scenario.Scenario, text string, i int, from, to, at time.Duration, line string) (string, error) {
	step := &s.Steps[i]
	if slices.ContainsFunc(s.Steps[:i], func(o scenario.Step) bool { return o.Line == step.Line && o.Do != scenario.At }) ||
		slices.ContainsFunc(s.Steps[i+1:], func(o scenario.Step) bool { return o.Line == step.Line && step.Do != scenario.At }) {
		unrolled := s.String() // within a repeat
		if unrolled == text {
			return "", fmt.Errorf("line %d is several steps: write the line yourself", step.Line)
		}
		return Insert(unrolled, at, line)
	}
	lines := strings.Split(text, "\n")
	k := step.Line - 1
	act := line
	if at > from {
		act = fmt.Sprintf("at %v %s", at, line)
	}
	switch {
	case step.Do == scenario.Run && from < at:
		rest := to - at
		if !slices.ContainsFunc(s.Steps[i+1:], takesTime) {
			rest = max(rest, after)
		}
		lines = slices.Replace(lines, k, k+1, act, "run "+rest.String())
	case step.Do == scenario.Settle && from < at: // it cannot be parted
		lines = slices.Insert(lines, k+1, line)
	default:
		lines = slices.Insert(lines, k, act)
	}
	return strings.Join(lines, "\n"), nil
}

func takesTime(step scenario.Step) bool {
	switch step.Do {
	case scenario.Run, scenario.At, scenario.Agree, scenario.Settle:
		return true
	}
	return false
}

// Extend has a scenario run on for d.
func Extend(text string, d time.Duration) string { return plain(text) + "run " + d.String() + "\n" }
