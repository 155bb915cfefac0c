package invariant

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Violation is a broken rule: who broke it, when and how.
type Violation struct {
	Rule   string        // which, as a sentence
	Member election.ID   // who
	At     time.Duration // since the start
	What   string        // what it did
	Replay string        // the command that shows it again; empty when the caller knows
}

func (v *Violation) Error() string {
	s := fmt.Sprintf("[%s] member %s breaks the rule %q: %s", scenario.Stamp(v.At), v.Member, v.Rule, v.What)
	if v.Replay != "" {
		s += "\nreplay: " + v.Replay
	}
	return s
}

// OrNone is a leadership as violations write it.
func OrNone(t election.Token) string {
	if !t.Defined() {
		return "none"
	}
	return t.String()
}
