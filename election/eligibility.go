package election

// Aside is why a member does not stand for election; empty when it does.
type Aside string

// Reasons to stand aside.
const (
	Stands          Aside = ""
	AsideResigned   Aside = "resigned"    // it stepped down; until a later leader's time ends
	AsideWorking    Aside = "working"     // its work of an earlier leadership has not stopped yet
	AsideUnsaved    Aside = "unsaved"     // its disk refuses its state, or has not answered for T
	AsideObserver   Aside = "observer"    // it was set up to follow only
	AsideUnhealthy  Aside = "unhealthy"   // its own check has failed
	AsideLastResort Aside = "last-resort" // unhealthy, and nobody healthy leads: it stands among such alone
	AsideGone       Aside = "gone"        // it has left or was removed
	AsideJoining    Aside = "joining"     // it has just joined and awaits the leader
	AsideUnfounded  Aside = "unfounded"   // it knows of no cluster yet, and may not found one
)

// SaysStands is how a leader tells in a [MemberReport] that a member stands.
const SaysStands Aside = "stands"
