package invariant

// Quorum: the promises of an algorithm that never has two leaders. They are checked in the
// world's own time.
const (
	OneLease     = "no two leases are in force at one time"
	OneEpochOnly = "an epoch names one leadership, and the next has a higher one"
	Committed    = "what was committed is never lost"
)

var ofQuorum = []Rule{
	{Name: OneLease, Where: "soak of quorum",
		Why:    "Two members that may both write destroy what they guard.",
		Mutant: "quorum: a promise is not kept"},
	{Name: OneEpochOnly, Where: "soak of quorum",
		Why:    "A store that fences by the epoch takes the later of two leaders for the earlier.",
		Mutant: "quorum: a second leadership in one term"},
	{Name: Committed, Where: "soak of quorum",
		Why:    "A change of the members that is forgotten gives two majorities that do not meet.",
		Mutant: "quorum: leads before it knows what was committed"},
}
