package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// check goes through the steps without playing them and gives the first that
// cannot be: a time that runs backwards, a crash of who is dead.
func (s *Scenario) check() (Step, error) {
	c := fates{setup: &s.Setup, of: map[election.ID]condition{}, gone: map[election.ID]bool{}}
	for _, r := range s.Setup.Members {
		c.of[r.ID] = alive
	}
	for _, id := range s.Setup.Absent {
		c.of[id], c.gone[id] = dead, true
	}
	for _, step := range s.Steps {
		if err := c.take(step); err != nil {
			return step, err
		}
	}
	return Step{}, nil
}

// fates follows what a script does to the members, without playing it.
type fates struct {
	setup *Setup
	of    map[election.ID]condition
	gone  map[election.ID]bool // absent: never started
	now   time.Duration
}

func (c *fates) take(s Step) error {
	manual := slices.Contains([]Verb{Deliver, Fire, Beat, Crash, Restart, Suspect, Trust}, s.Do)
	if c.setup.Manual && !manual {
		return fmt.Errorf("expected a step of a manual script (deliver, fire, beat, crash, restart, suspect, trust), found %s", s.Do)
	}
	if !c.setup.Manual && slices.Contains([]Verb{Deliver, Fire, Beat}, s.Do) {
		return fmt.Errorf("expected \"manual\" above: otherwise messages and timers come by themselves")
	}
	switch s.Do {
	case Run:
		c.now += s.For
	case At:
		if s.For < c.now {
			return fmt.Errorf("expected a time of at least %v: it is later than %v by now, and time does not run backwards", c.now, s.For)
		}
		c.now = s.For
	case Settle:
		for _, r := range c.setup.Members {
			if c.of[r.ID] == frozen {
				c.of[r.ID] = alive
			}
		}
	case Suspect, Trust:
		if !c.setup.NoDetector {
			return fmt.Errorf("expected \"detector off\" above: with a detector it alone suspects; cut a link instead")
		}
		if s.Members[0] == s.Members[1] {
			return fmt.Errorf("expected two members, found %s twice", s.Members[0])
		}
	case Start, Crash, PowerOff, Restart, Freeze, Thaw, Campaign, Resign, Duplicate:
		for _, id := range s.Members {
			if err := c.change(s.Do, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// change is one member's fate: from what, to what.
func (c *fates) change(do Verb, id election.ID) error {
	var want []condition
	to := alive
	switch do {
	case Start, Restart:
		want = []condition{dead, off}
		if absent := c.gone[id]; absent != (do == Start) {
			if absent {
				return fmt.Errorf("expected \"start %s\": it has never run", id)
			}
			return fmt.Errorf("expected an absent member, found %s, which has run before: restart it", id)
		}
		c.gone[id] = false
	case Crash:
		want, to = []condition{alive, frozen}, dead
	case PowerOff:
		want, to = []condition{alive, frozen, dead}, off
	case Freeze:
		want, to = []condition{alive}, frozen
	case Thaw:
		want = []condition{frozen}
	default:
		want, to = []condition{alive}, alive
	}
	for _, w := range want {
		if c.of[id] == w {
			c.of[id] = to
			return nil
		}
	}
	return fmt.Errorf("expected to %s a member that is %s, found %s, which is %s", do, want[0], id, c.of[id])
}

func (c condition) String() string { return [...]string{"dead", "alive", "frozen", "without power"}[c] }
