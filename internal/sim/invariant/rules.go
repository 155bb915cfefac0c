// Package invariant defines the rules that the lab checks: what must never happen, and what
// must come in the end. Each is a sentence. A [Violation] reports a broken rule.
// docs/verification-rules.md gives each rule's reason and the mutant that proves its check.
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

// Leading: which member may lead, and when.
const (
	Takeover = "no member claims while it receives a leader, or while another can confirm that leader"
	Stands   = "no observer and no unhealthy member leads"
	Founding = "the first leader of all has received as many members as it waits for, and has not joined"
	Work     = "no member leads again while its earlier work runs"
	Phases   = "a member's phase moves as the table of moves allows"
	Overlap  = "no member begins to lead while another's work runs, except after a crash, a freeze, a broken link between the two, or a changed priority that only one of them has"
)

// Members: which processes are members.
const (
	Member  = "no process follows or leads that is no member as far as it knows"
	OneList = "once faults stop, every connected group of live members comes to one list, and removed members have ended"
)

// Bounds: which resources a Machine may use.
const (
	Bounded = "queues and messages are bounded"
	Rest    = "a cluster does not run in circles without time passing"
	Driver  = "a Machine asks its driver only for what can be done"
	Panic   = "a Machine never panics"
)

// Quorum: the promises of an algorithm that never has two leaders. They are checked in the
// world's own time.
const (
	OneLease     = "no two leases are in force at one time"
	OneEpochOnly = "an epoch names one leadership, and the next has a higher one"
	Committed    = "what was committed is never lost"
	Halts        = "a member ends itself only if it was removed, or if another disk has claimed its number"
)

// Named elections: which member leads a name, and how names are shared out.
const (
	NamedOnce   = "each seat of a named election is led by one member at a time: with a quorum always, else where nothing is broken between the two and their coordinator"
	NamedSeats  = "no more members lead a named election, or still work for it, than it has seats, where nothing is broken between them and their coordinator"
	NamedRises  = "the epochs of each seat of a named election rise, at each member, and with a quorum everywhere, where no two seats have the same"
	NamedLost   = "every leadership of a named election is lost, once, before the next begins"
	NamedLed    = "once faults stop, as many seats of each named election are led as have candidates, in bounded time, and every member sees their leaders"
	NamedShares = "without faults no member's share of the named elections exceeds that of another that could take one by more than the heaviest, and preferred members lead"
)

// The end: what must come once faults stop.
const (
	Converges = "once faults stop, every connected group of live members agrees, in bounded time, on its highest candidate"
	Told      = "once faults stop, every member of a group in which each reaches each has what the others publish, in bounded time"
	Endless   = "agreement lasts while nothing happens"
)
