package invariant

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Violation is a broken rule: the member that broke it, when and how.
type Violation struct {
	Rule   string // the name of the rule
	Member election.ID
	At     time.Duration // since the start
	What   string        // what the member did
	Replay string        // a command that reproduces it; empty when the caller has it
}

func (v *Violation) Error() string {
	s := fmt.Sprintf("[%s] member %s breaks the rule %q: %s", scenario.Stamp(v.At), v.Member, v.Rule, v.What)
	if v.Replay != "" {
		s += "\nreplay: " + v.Replay
	}
	return s
}

// OrNone formats a leadership for a violation.
func OrNone(t election.Token) string {
	if !t.Defined() {
		return "none"
	}
	return t.String()
}
