package invariant

// The end: what must come once faults stop.
const (
	Converges = "once faults stop, every connected group of live members agrees, in bounded time, on its highest rank that stands"
	Told      = "once faults stop, every member of a group in which each reaches each knows what the others tell of themselves, in bounded time"
	Endless   = "agreement lasts while nothing happens"
)

var ofEnd = []Rule{
	{Name: Converges, Where: "soak, explore",
		Why:    "Rules of safety alone are kept by a cluster that never elects anybody.",
		Mutant: "leads although nobody acknowledges"},
	{Name: Told, Where: "soak",
		Why:    "A client that is sent to the leader's URL is sent to a wrong one.",
		Mutant: "does not ask for what members tell of themselves"},
	{Name: Endless, Where: "soak",
		Why: "An agreement that the detector would undo is none; and a run has to end. No mutant: one whose agreements do not last is, at some look after the bound, without one, and broken by the rule above."},
}
