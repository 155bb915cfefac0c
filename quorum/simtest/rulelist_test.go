package simtest_test

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
		Why: "A token fences the work of a leadership. A store that has seen a higher token refuses a lower one. A member that goes back is refused, or does harm where no store checks."},
	{Name: invariant.Once, Where: "soak", Mutant: "forgets its own epoch in a restart",
		Why: "A store cannot distinguish two leaderships under one token."},
	{Name: invariant.Claimed, Where: "soak, explore", Mutant: "follows an epoch of its own",
		Why: "A leader that has claimed nothing does no work, and never sends a heartbeat."},
	{Name: invariant.Asked, Where: "soak, explore", Mutant: "claims without asking",
		Why: "A member without that answer would claim an epoch below one that a store has seen, and be refused."},
	{Name: invariant.Skip, Where: "soak", Mutant: "leaves epochs out",
		Why: "Epochs are finite. A member that raises them without need uses them up."},
	{Name: invariant.OneEpoch, Where: "soak", Mutant: "forgets the epochs it receives",
		Why: "Users rely on this promise: without faults, an epoch has one leader."},
}

var ofTelling = []rule{
	{Name: invariant.Lost, Where: "soak, explore", Mutant: "follows without telling of the loss",
		Why: "A watcher starts work at the first event and stops it at the second. Without the pair, it works twice or forever."},
	{Name: invariant.Tells, Where: "soak", Mutant: "reports that it resigns before it has",
		Why: "A member that learns that leadership is free may take it. By then the work here must have been asked to stop."},
	{Name: invariant.Saved, Where: "soak, explore", Mutant: "announces before it has saved",
		Why: "A token that was announced and is lost in a crash is claimed a second time."},
	{Name: invariant.Kept, Where: "soak with membership, of quorum", Mutant: "quorum: a compaction leaves out what is not applied yet",
		Why: "The next process begins with what the disk holds. It would vote again, or take a removed member for a member."},
	{Name: invariant.Lower, Where: "soak, explore", Mutant: "accepts a lower token",
		Why: "A message that took long must not undo what came after it."},
	{Name: invariant.Vouch, Where: "soak", Mutant: "a late REPORT confirms",
		Why: "A member that confirmed the leader may have received nothing since. A late confirmation keeps a dead leader, and no work is done meanwhile."},
	{Name: invariant.Stalled, Where: "soak", Mutant: "does not notice that it was stopped",
		Why: "A stopped process may have been replaced meanwhile. It must not act as leader on what it knew before."},
}

var ofLead = []rule{
	{Name: invariant.Takeover, Where: "soak", Mutant: "forgets the confirmations",
		Why: "An election while the leader works interrupts that work without need."},
	{Name: invariant.Stands, Where: "soak", Mutant: "an observer is a candidate",
		Why: "An observer is configured never to lead. An unhealthy member would do the work badly."},
	{Name: invariant.Founding, Where: "soak", Mutant: "creates a cluster by itself",
		Why: "Members that do not reach each other yet would each lead a cluster of their own, forever."},
	{Name: invariant.Work, Where: "soak", Mutant: "forgets that its work runs",
		Why: "Two runs of the work in a process share its files and connections."},
	{Name: invariant.Phases, Where: "soak, explore", Mutant: "a leader that is removed ends without a message",
		Why: "A move that is not in the table leads to a state that the code does not handle: a removed member that leads, a leader that follows without an event of its loss."},
	{Name: invariant.Overlap, Where: "soak", Mutant: "claims while another's work runs",
		Why: "An election exists to prevent that two leaders work at once."},
}

var ofMembers = []rule{
	{Name: invariant.Member, Where: "soak with membership", Mutant: "follows a process that is no member",
		Why: "If a process that is no member leads or is followed, its removal has no effect."},
	{Name: invariant.OneList, Where: "soak with membership", Mutant: "does not compare lists",
		Why: "Members with different lists disagree, sooner or later, on the leader."},
}

var ofBounds = []rule{
	{Name: invariant.Bounded, Where: "soak, explore", Mutant: "takes an old confirmation for a fresh one",
		Why: "A queue without a bound lets a peer use up the memory."},
	{Name: invariant.Rest, Where: "soak, explore", Mutant: "never suspects",
		Why: "Members that answer each other without end use a whole processor and never settle."},
	{Name: invariant.Driver, Where: "soak, explore", Mutant: "saves while it saves",
		Why: "A driver that is asked for something impossible has to guess."},
	{Name: invariant.Panic, Where: "soak", Mutant: "a sender on the list is taken for one that departs",
		Why: "A panic ends the service that the library runs in."},
}

var ofQuorum = []rule{
	{Name: invariant.OneLease, Where: "soak of quorum", Mutant: "quorum: a promise is not kept",
		Why: "Two members that may both write destroy the data."},
	{Name: invariant.OneEpochOnly, Where: "soak of quorum", Mutant: "quorum: a second leadership in one term",
		Why: "A store that fences by the epoch mistakes the later of two leaders for the earlier."},
	{Name: invariant.Committed, Where: "soak of quorum", Mutant: "quorum: leads before it knows what was committed",
		Why: "A change of the members that is lost allows two majorities without a common member."},
	{Name: invariant.Halts, Where: "soak of quorum", Mutant: "quorum: the disk of an earlier number ends its replacement",
		Why: "A member that ends without need is one voter fewer, until a user replaces it."},
}

var ofNamed = []rule{
	{Name: invariant.NamedOnce, Where: "soak with elections", Mutant: "named: a seat is reassigned before its leader has released it",
		Why: "An election exists to prevent that two members do a shard's work at once."},
	{Name: invariant.NamedSeats, Where: "soak with elections", Mutant: "named: what a silent member works for is forgotten",
		Why: "An election with slots is a semaphore. A leader too many overloads what it guards."},
	{Name: invariant.NamedRises, Where: "soak with elections", Mutant: "named: a name's epochs begin again",
		Why: "A store that fences by the token mistakes the later leader for the earlier."},
	{Name: invariant.NamedLost, Where: "soak with elections", Mutant: "named: a superseded leadership is not reported as lost",
		Why: "A watcher starts work at the first event and stops it at the second. Without the pair, it works twice or forever."},
	{Name: invariant.NamedLed, Where: "soak with elections", Mutant: "named: a drained member is given names",
		Why: "No work is done on a shard without a leader."},
	{Name: invariant.NamedShares, Where: "soak with elections", Mutant: "named: shares are left as they are",
		Why: "Elections are spread so that no member carries the load of several."},
}

var ofEnd = []rule{
	{Name: invariant.Converges, Where: "soak, explore", Mutant: "leads although no member acknowledges",
		Why: "A cluster that never elects a leader breaks no rule of safety."},
	{Name: invariant.Told, Where: "soak", Mutant: "does not ask for what members publish",
		Why: "A client is sent to a URL that is no longer the leader's."},
	{Name: invariant.Endless, Where: "soak",
		Why: "An agreement that the detector would undo is none, and a run has to end. There is no mutant: if agreements do not last, a check after the bound finds none, and the rule of agreement is broken."},
}
