package sim_test

import (
	"slices"

	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// rule is a rule of package invariant: its sentence, why it is there, and what proves its check.
type rule struct {
	Name   string
	Why    string // the harm that the rule prevents
	Where  string // what checks it: random schedules, the search of all orders
	Mutant string // the mutant of the core that breaks it; empty: the tables have none
}

// rules returns all rules, in the order of the documentation.
func rules() []rule {
	return slices.Concat(ofToken, ofTelling, ofLead, ofMembers, ofBounds, ofQuorum, ofNamed, ofEnd)
}

var ofToken = []rule{
	{Name: invariant.Monotone, Where: "soak, explore", Mutant: "claims the same epoch again",
		Why: "A token fences the work of a leadership: whoever took in a higher one refuses a lower one, so a member that goes back is refused, or does harm where nobody checks."},
	{Name: invariant.Once, Where: "soak", Mutant: "forgets its own epoch in a restart",
		Why: "Two leaderships under one token cannot be told apart by what they fence."},
	{Name: invariant.Claimed, Where: "soak, explore", Mutant: "follows an epoch of its own",
		Why: "A leader that nobody claims to be does no work, and no beat of it will ever come."},
	{Name: invariant.Asked, Where: "soak, explore", Mutant: "claims without asking",
		Why: "A member that has forgotten, or never knew, would begin below what others have seen, and be refused."},
	{Name: invariant.Skip, Where: "soak", Mutant: "leaves epochs out",
		Why: "Epochs are finite: whoever raises them at will, or is made to, uses them up."},
	{Name: invariant.OneEpoch, Where: "soak", Mutant: "forgets the epochs it hears of",
		Why: "Where nothing is broken, one epoch is one leader: the promise that users count on."},
}

var ofTelling = []rule{
	{Name: invariant.Lost, Where: "soak, explore", Mutant: "follows without telling of the loss",
		Why: "A watcher starts work at one event and stops it at the other: unpaired, it works twice or for ever."},
	{Name: invariant.Tells, Where: "soak", Mutant: "says that it resigns before it has",
		Why: "Once others hear that the lead is free they may take it; by then the work here must have been told to stop."},
	{Name: invariant.Saved, Where: "soak, explore", Mutant: "tells before it has saved",
		Why: "What was told and is forgotten in a crash is claimed a second time."},
	{Name: invariant.Lower, Where: "soak, explore", Mutant: "accepts a lower token",
		Why: "A message that was long on its way must not topple what came after it."},
	{Name: invariant.Vouch, Where: "soak", Mutant: "a late REPORT vouches",
		Why: "Whoever vouched may have heard nothing since: a late word keeps a dead leader, and with it everybody's work from going on."},
	{Name: invariant.Stalled, Where: "soak", Mutant: "does not notice that it was stopped",
		Why: "A stopped process may have been replaced meanwhile: it must not act as leader on what it knew before."},
}

var ofLead = []rule{
	{Name: invariant.Takeover, Where: "soak", Mutant: "forgets the vouching",
		Why: "A contest while the leader is well interrupts its work for nothing."},
	{Name: invariant.Stands, Where: "soak", Mutant: "an observer stands",
		Why: "An observer was asked never to lead; a member that finds itself unhealthy would do the work badly."},
	{Name: invariant.Founding, Where: "soak", Mutant: "founds a cluster alone",
		Why: "Machines that do not reach each other yet would each lead a cluster of its own, for ever."},
	{Name: invariant.Work, Where: "soak", Mutant: "forgets that its work runs",
		Why: "Two runs of the work in one process share its files and connections."},
	{Name: invariant.Phases, Where: "soak, explore", Mutant: "a leader that is removed goes without a word",
		Why: "A move that nobody has thought of is a member in a state that nobody has thought of: one that was removed and leads, one that goes from leading to following without a word."},
	{Name: invariant.Overlap, Where: "soak", Mutant: "claims while another's work runs",
		Why: "Two leaders that work at once is what an election is there to prevent."},
}

var ofMembers = []rule{
	{Name: invariant.Member, Where: "soak with membership", Mutant: "follows a stranger",
		Why: "A stranger or a removed member that leads or is followed undoes the removal."},
	{Name: invariant.OneList, Where: "soak with membership", Mutant: "does not compare lists",
		Why: "Members that differ on who is one differ, sooner or later, on who leads."},
}

var ofBounds = []rule{
	{Name: invariant.Bounded, Where: "soak, explore", Mutant: "takes an old vouch for a fresh one",
		Why: "What grows with what peers send is memory that a peer can take."},
	{Name: invariant.Rest, Where: "soak, explore", Mutant: "never suspects",
		Why: "Members that answer each other without end take a whole processor and never settle."},
	{Name: invariant.Driver, Where: "soak, explore", Mutant: "saves while it saves",
		Why: "A driver that is asked for the impossible has to guess."},
	{Name: invariant.Panic, Where: "soak", Mutant: "a sender on the list is taken for one that departs",
		Why: "A panic ends the service that the library runs in."},
}

var ofQuorum = []rule{
	{Name: invariant.OneLease, Where: "soak of quorum", Mutant: "quorum: a promise is not kept",
		Why: "Two members that may both write destroy what they guard."},
	{Name: invariant.OneEpochOnly, Where: "soak of quorum", Mutant: "quorum: a second leadership in one term",
		Why: "A store that fences by the epoch takes the later of two leaders for the earlier."},
	{Name: invariant.Committed, Where: "soak of quorum", Mutant: "quorum: leads before it knows what was committed",
		Why: "A change of the members that is forgotten gives two majorities that do not meet."},
}

var ofNamed = []rule{
	{Name: invariant.NamedOnce, Where: "soak with elections", Mutant: "named: a seat is given away before its leader has let go",
		Why: "Two that do a shard's work at once is what an election is there to prevent."},
	{Name: invariant.NamedSeats, Where: "soak with elections", Mutant: "named: who works on takes no seat",
		Why: "An election with seats is a semaphore: one more than it has overloads what it guards."},
	{Name: invariant.NamedRises, Where: "soak with elections", Mutant: "named: a name's epochs begin anew",
		Why: "A store that fences by the token takes the later leader for the earlier."},
	{Name: invariant.NamedLost, Where: "soak with elections", Mutant: "named: who is superseded is not told of as lost",
		Why: "A watcher starts work at one event and stops it at the other: unpaired, it works twice or for ever."},
	{Name: invariant.NamedLed, Where: "soak with elections", Mutant: "named: a drained member is given names",
		Why: "A shard that nobody leads does nothing."},
	{Name: invariant.NamedShares, Where: "soak with elections", Mutant: "named: shares are left as they are",
		Why: "Elections are spread so that no member bears the others' load."},
}

var ofEnd = []rule{
	{Name: invariant.Converges, Where: "soak, explore", Mutant: "leads although nobody acknowledges",
		Why: "Rules of safety alone are kept by a cluster that never elects anybody."},
	{Name: invariant.Told, Where: "soak", Mutant: "does not ask for what members tell of themselves",
		Why: "A client that is sent to the leader's URL is sent to a wrong one."},
	{Name: invariant.Endless, Where: "soak",
		Why: "An agreement that the detector would undo is none; and a run has to end. No mutant: one whose agreements do not last is, at some look after the bound, without one, and broken by the rule above."},
}
