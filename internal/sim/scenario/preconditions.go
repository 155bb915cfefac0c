package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Check goes through the steps without playing them. It returns the first impossible step and
// the reason: time runs backwards, or a dead member crashes.
func (s *Scenario) Check() (Step, error) {
	c := NewPreconditions(&s.Setup)
	for _, step := range s.Steps {
		if err := c.Take(step); err != nil {
			return step, err
		}
	}
	return Step{}, nil
}

// Condition is the condition of a member's process and host.
type Condition uint8

// The conditions.
const (
	Dead   Condition = iota // no process; its host refuses connections
	Alive                   //
	Frozen                  // stopped: its kernel still accepts and buffers
	Off                     // no host: nothing comes back
)

// Preconditions follows what a script does to the members, without playing it. It decides which
// step may come next.
type Preconditions struct {
	setup *Setup
	of    map[election.ID]Condition
	gone  map[election.ID]bool // never started
	left  map[election.ID]bool // left on request; only a join brings it back
	loose map[election.ID]bool // removed at some member; it may end by itself at any time
	now   time.Duration
}

// NewPreconditions returns those of a script's first step.
func NewPreconditions(s *Setup) Preconditions {
	c := Preconditions{setup: s, of: map[election.ID]Condition{}, gone: map[election.ID]bool{}, left: map[election.ID]bool{}, loose: map[election.ID]bool{}}
	for _, r := range s.Members {
		c.of[r.ID] = Alive
	}
	for _, id := range slices.Concat(s.Absent, s.Newcomers) {
		c.of[id], c.gone[id] = Dead, true
	}
	return c
}

// Lives reports whether a member has a process, running or frozen.
func (c *Preconditions) Lives(id election.ID) bool { return c.of[id] == Alive || c.of[id] == Frozen }

// Take applies s, or returns why s is impossible.
func (c *Preconditions) Take(s Step) error {
	f := formOf[s.Do]
	if f == nil {
		return fmt.Errorf("expected a step (%s), found %q", verbList(), s.Do)
	}
	if err := c.fits(f); err != nil {
		return err
	}
	switch s.Do {
	case Run:
		if c.now += s.For; c.now > maxTime {
			return fmt.Errorf("expected a scenario of at most %v, found %v", maxTime, c.now)
		}
	case At:
		if s.For < c.now {
			return fmt.Errorf("expected a time of at least %v: it is later than %v by now, and time does not run backwards", c.now, s.For)
		}
		c.now = s.For
	case Times:
		t := c.setup.Filled().Timing
		t.TMax, t.TProcess = s.For, s.Process
		return t.Validate()
	case Settle:
		for _, r := range c.setup.Members {
			if c.of[r.ID] == Frozen {
				c.of[r.ID] = Alive
			}
		}
	case Suspect, Trust:
		if s.Members[0] == s.Members[1] {
			return fmt.Errorf("expected two members, found %s twice", s.Members[0])
		}
	case Join:
		if slices.Contains(s.Via, s.Members[0]) {
			return fmt.Errorf("expected other members for %s to join through, found itself", s.Members[0])
		}
		return c.change(Join, s.Members[0])
	case Duplicate:
		return c.duplicate(s)
	case Add, Remove:
		if s.Do == Add && s.Via[0] == s.Members[0] && !s.Ranked {
			return fmt.Errorf("expected another member at which %s is added, or a priority that it sets for itself, found itself", s.Via[0])
		}
		if err := c.change(s.Do, s.Via[0]); err != nil {
			return err
		}
		c.loose[s.Members[0]] = c.loose[s.Members[0]] || s.Do == Remove
	default:
		if f.from == nil {
			break
		}
		for _, id := range s.Members {
			if err := c.change(s.Do, id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Preconditions) duplicate(s Step) error {
	if slices.Contains(s.Via, s.Members[0]) {
		return fmt.Errorf("expected other members for a second %s to join through, found itself", s.Members[0])
	}
	if len(s.Via) > 0 { // of a member that may be dead, and stays so
		return nil
	}
	return c.change(Duplicate, s.Members[0])
}

// fits returns why a step contradicts the settings, or nil.
func (c *Preconditions) fits(f *form) error {
	switch {
	case c.setup.Manual && f.only == automatic:
		return fmt.Errorf("expected a step of a manual script (deliver, fire, beat, pass, crash, restart, freeze, thaw, campaign, suspect, trust), found %s", f.verb)
	case !c.setup.Manual && f.only == manual:
		return fmt.Errorf("expected \"manual\" above: otherwise messages and timers come by themselves")
	case f.undone && !c.setup.NoDetector:
		return fmt.Errorf("expected \"detector off\" above: only the detector suspects while it is on; cut a link instead")
	}
	return nil
}

// change moves a member to the condition that a step causes.
func (c *Preconditions) change(do Verb, id election.ID) error {
	if do == Duplicate && slices.Contains(c.setup.Newcomers, id) {
		return fmt.Errorf("expected a member with a configured list, found %s, which joins", id)
	}
	f := formOf[do]
	switch do {
	case Join:
		if !slices.Contains(c.setup.Newcomers, id) && !c.left[id] {
			return fmt.Errorf("expected a newcomer, or a member that has left, found %s, which has its list: start or restart it", id)
		}
	case Start, Restart:
		if slices.Contains(c.setup.Newcomers, id) && c.gone[id] || c.left[id] {
			return fmt.Errorf("expected \"join %s via …\": no member has it on its list", id)
		}
		if absent := c.gone[id]; absent != (do == Start) {
			if absent {
				return fmt.Errorf("expected \"start %s\": it has never run", id)
			}
			return fmt.Errorf("expected an absent member, found %s, which has run before: restart it", id)
		}
	}
	if !c.loose[id] && !slices.Contains(f.from, c.of[id]) {
		return fmt.Errorf("expected to %s a member that is %s, found %s, which is %s", do, f.from[0], id, c.of[id])
	}
	c.of[id] = f.to
	starts := slices.Contains([]Verb{Start, Restart, Join}, do)
	c.left[id] = do == Leave || c.left[id] && !starts
	c.gone[id] = c.gone[id] && !starts
	return nil
}

func (c Condition) String() string { return [...]string{"dead", "alive", "frozen", "without power"}[c] }
