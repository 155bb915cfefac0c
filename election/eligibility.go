package election

// Eligibility is why a member is not a candidate; empty when it is.
type Eligibility string

// Eligible, and the reasons why a member is not.
const (
	Eligible            Eligibility = ""
	IneligibleResigned  Eligibility = "resigned"    // it stepped down; until a later leadership of at least 2·T ends
	StandsNext          Eligibility = "stands-next" // such a leadership is present: it is a candidate once that ends
	IneligibleWorking   Eligibility = "working"     // its work of an earlier leadership has not stopped yet
	IneligibleUnsaved   Eligibility = "unsaved"     // its disk refuses its state, or has not answered for T
	IneligibleObserver  Eligibility = "observer"    // it was configured to follow only
	IneligibleUnhealthy Eligibility = "unhealthy"   // its health check has failed
	LastResort          Eligibility = "last-resort" // unhealthy, and no healthy member leads: a candidate only among such members
	IneligibleClosing   Eligibility = "closing"     // its process is about to end
	IneligibleGone      Eligibility = "gone"        // it has left or was removed
	IneligibleJoining   Eligibility = "joining"     // it has just joined and awaits the leader
	IneligibleRefused   Eligibility = "refused"     // a live member of its list refuses its connections
	IneligibleUnfounded Eligibility = "unfounded"   // it has found no cluster yet, and may not create one
	IneligiblePaused    Eligibility = "paused"      // leadership stays with its holder until the pause ends
	IneligibleFew       Eligibility = "few-members" // it receives from fewer members than it needs to lead
)

// SaysEligible encodes [Eligible] where an empty value means that nothing is known: in a
// [MemberReport], and in an algorithm's own messages.
const SaysEligible Eligibility = "stands"

// Said encodes e, with [SaysEligible] for [Eligible].
func (e Eligibility) Said() Eligibility {
	if e == Eligible {
		return SaysEligible
	}
	return e
}

// Hears returns the eligibility after said was received, which is empty from older versions:
// then e stays.
func (e Eligibility) Hears(said Eligibility) Eligibility {
	switch said {
	case "":
		return e
	case SaysEligible:
		return Eligible
	}
	return said
}
