// Package invariant defines the rules that the lab checks: what must never happen, and what
// must come in the end. Each is a sentence with its reason and the mutant that proves that
// its check can fail. A table holds a group of rules. A [Violation] reports a broken rule.
package invariant

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Rule is something that must never happen, or must come in the end. Its name is the
// sentence that a [Violation] shows.
type Rule struct {
	Name   string
	Why    string // the harm that the rule prevents
	Where  string // what checks it: random schedules, the search of all orders
	Mutant string // the mutant of the core that breaks it; empty: the tables have none
}

// Rules returns all rules, in the order of the documentation.
func Rules() []Rule {
	return slices.Concat(ofToken, ofTelling, ofLead, ofMembers, ofBounds, ofQuorum, ofNamed, ofEnd)
}

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
	Takeover = "nobody claims while a leader leads whom it hears, or for whom somebody can vouch"
	Stands   = "nobody leads who only follows, or is unhealthy"
	Founding = "nobody is the first leader of all before it has heard as many members as it is to wait for, nor who joins"
	Work     = "nobody leads again while its earlier work runs"
	Phases   = "a member's phase moves as the table of moves allows"
	Overlap  = "nobody begins to lead while another's work runs, but after a crash, a freeze or a broken link between the two"
)

var ofLead = []Rule{
	{Name: Takeover, Where: "soak", Mutant: "forgets the vouching",
		Why: "A contest while the leader is well interrupts its work for nothing."},
	{Name: Stands, Where: "soak", Mutant: "an observer stands",
		Why: "An observer was asked never to lead; a member that finds itself unhealthy would do the work badly."},
	{Name: Founding, Where: "soak", Mutant: "founds a cluster alone",
		Why: "Machines that do not reach each other yet would each lead a cluster of its own, for ever."},
	{Name: Work, Where: "soak", Mutant: "forgets that its work runs",
		Why: "Two runs of the work in one process share its files and connections."},
	{Name: Phases, Where: "soak, explore", Mutant: "a leader that is removed goes without a word",
		Why: "A move that nobody has thought of is a member in a state that nobody has thought of: one that was removed and leads, one that goes from leading to following without a word."},
	{Name: Overlap, Where: "soak", Mutant: "claims while another's work runs",
		Why: "Two leaders that work at once is what an election is there to prevent."},
}

// Members: which processes are members.
const (
	Member  = "nobody follows or leads who is no member as far as it knows"
	OneList = "once faults stop, every connected group of live members comes to one list, and who was removed has gone"
)

var ofMembers = []Rule{
	{Name: Member, Where: "soak with membership", Mutant: "follows a stranger",
		Why: "A stranger or a removed member that leads or is followed undoes the removal."},
	{Name: OneList, Where: "soak with membership", Mutant: "does not compare lists",
		Why: "Members that differ on who is one differ, sooner or later, on who leads."},
}

// Bounds: which resources a Machine may use.
const (
	Bounded = "queues and messages are bounded"
	Rest    = "a cluster does not run in circles without time passing"
	Driver  = "a Machine asks its driver only for what can be done"
	Panic   = "a Machine never panics"
)

var ofBounds = []Rule{
	{Name: Bounded, Where: "soak, explore", Mutant: "takes an old vouch for a fresh one",
		Why: "What grows with what peers send is memory that a peer can take."},
	{Name: Rest, Where: "soak, explore", Mutant: "never suspects",
		Why: "Members that answer each other without end take a whole processor and never settle."},
	{Name: Driver, Where: "soak, explore", Mutant: "saves while it saves",
		Why: "A driver that is asked for the impossible has to guess."},
	{Name: Panic, Where: "soak", Mutant: "a sender on the list is taken for one that departs",
		Why: "A panic ends the service that the library runs in."},
}

// Quorum: the promises of an algorithm that never has two leaders. They are checked in the
// world's own time.
const (
	OneLease     = "no two leases are in force at one time"
	OneEpochOnly = "an epoch names one leadership, and the next has a higher one"
	Committed    = "what was committed is never lost"
)

var ofQuorum = []Rule{
	{Name: OneLease, Where: "soak of quorum", Mutant: "quorum: a promise is not kept",
		Why: "Two members that may both write destroy what they guard."},
	{Name: OneEpochOnly, Where: "soak of quorum", Mutant: "quorum: a second leadership in one term",
		Why: "A store that fences by the epoch takes the later of two leaders for the earlier."},
	{Name: Committed, Where: "soak of quorum", Mutant: "quorum: leads before it knows what was committed",
		Why: "A change of the members that is forgotten gives two majorities that do not meet."},
}

// Named elections: which member leads a name, and how names are shared out.
const (
	NamedOnce   = "each seat of a named election is led by one member at a time: under quorum ever, else where nothing is broken between the two and their coordinator"
	NamedSeats  = "no more members lead a named election, or still work for it, than it has seats, where nothing is broken between them and their coordinator"
	NamedRises  = "the epochs of each seat of a named election rise, at each member, and under quorum everywhere, where no two seats have one"
	NamedLost   = "every lead of a named election is lost, once, before the next begins"
	NamedLed    = "once faults stop, as many seats of each named election are led as have candidates, in bounded time, and everyone sees by whom"
	NamedShares = "in calm no member's share of the named elections is more than one heaviest above another's who could take one, and who is preferred leads"
)

var ofNamed = []Rule{
	{Name: NamedOnce, Where: "soak with elections", Mutant: "named: a seat is given away before its leader has let go",
		Why: "Two that do a shard's work at once is what an election is there to prevent."},
	{Name: NamedSeats, Where: "soak with elections", Mutant: "named: who works on takes no seat",
		Why: "An election with seats is a semaphore: one more than it has overloads what it guards."},
	{Name: NamedRises, Where: "soak with elections", Mutant: "named: a name's epochs begin anew",
		Why: "A store that fences by the token takes the later leader for the earlier."},
	{Name: NamedLost, Where: "soak with elections", Mutant: "named: who is superseded is not told of as lost",
		Why: "A watcher starts work at one event and stops it at the other: unpaired, it works twice or for ever."},
	{Name: NamedLed, Where: "soak with elections", Mutant: "named: a drained member is given names",
		Why: "A shard that nobody leads does nothing."},
	{Name: NamedShares, Where: "soak with elections", Mutant: "named: shares are left as they are",
		Why: "Elections are spread so that no member bears the others' load."},
}

// The end: what must come once faults stop.
const (
	Converges = "once faults stop, every connected group of live members agrees, in bounded time, on its highest rank that stands"
	Told      = "once faults stop, every member of a group in which each reaches each knows what the others tell of themselves, in bounded time"
	Endless   = "agreement lasts while nothing happens"
)

var ofEnd = []Rule{
	{Name: Converges, Where: "soak, explore", Mutant: "leads although nobody acknowledges",
		Why: "Rules of safety alone are kept by a cluster that never elects anybody."},
	{Name: Told, Where: "soak", Mutant: "does not ask for what members tell of themselves",
		Why: "A client that is sent to the leader's URL is sent to a wrong one."},
	{Name: Endless, Where: "soak",
		Why: "An agreement that the detector would undo is none; and a run has to end. No mutant: one whose agreements do not last is, at some look after the bound, without one, and broken by the rule above."},
}
