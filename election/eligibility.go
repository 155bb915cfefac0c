package election

// Eligibility is why a member does not stand for election; empty when it does.
type Eligibility string

// Eligible, and the reasons why a member is not.
const (
	Eligible            Eligibility = ""
	IneligibleResigned  Eligibility = "resigned"    // it stepped down; until a later leadership of at least 2·T ends
	StandsNext          Eligibility = "stands-next" // such a leadership is there: it stands once that ends
	IneligibleWorking   Eligibility = "working"     // its work of an earlier leadership has not stopped yet
	IneligibleUnsaved   Eligibility = "unsaved"     // its disk refuses its state, or has not answered for T
	IneligibleObserver  Eligibility = "observer"    // it was set up to follow only
	IneligibleUnhealthy Eligibility = "unhealthy"   // its own check has failed
	LastResort          Eligibility = "last-resort" // unhealthy, and nobody healthy leads: it stands among such alone
	IneligibleClosing   Eligibility = "closing"     // its process is about to end
	IneligibleGone      Eligibility = "gone"        // it has left or was removed
	IneligibleJoining   Eligibility = "joining"     // it has just joined and awaits the leader
	IneligibleRefused   Eligibility = "refused"     // a live member of its list refuses its connections
	IneligibleUnfounded Eligibility = "unfounded"   // it knows of no cluster yet, and may not found one
	IneligiblePaused    Eligibility = "paused"      // the lead stays with its holder until the pause ends
	IneligibleFew       Eligibility = "few-members" // it receives fewer members than it needs to lead
)

// SaysEligible is how a member is told that one stands where silence means that nothing is known:
// in a [MemberReport], and where an algorithm's own message says it.
const SaysEligible Eligibility = "stands"

// Said is how e is told there.
func (e Eligibility) Said() Eligibility {
	if e == Eligible {
		return SaysEligible
	}
	return e
}

// Hears is what is known once that was said, which an older process leaves out.
func (e Eligibility) Hears(said Eligibility) Eligibility {
	switch said {
	case "":
		return e
	case SaysEligible:
		return Eligible
	}
	return said
}
