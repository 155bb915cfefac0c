package invariant

// Bounds: which resources a Machine may use.
const (
	Bounded = "queues and messages are bounded"
	Rest    = "a cluster does not run in circles without time passing"
	Driver  = "a Machine asks its driver only for what can be done"
	Panic   = "a Machine never panics"
)

var ofBounds = []Rule{
	{Name: Bounded, Where: "soak, explore",
		Why:    "What grows with what peers send is memory that a peer can take.",
		Mutant: "takes an old vouch for a fresh one"},
	{Name: Rest, Where: "soak, explore",
		Why:    "Members that answer each other without end take a whole processor and never settle.",
		Mutant: "never suspects"},
	{Name: Driver, Where: "soak, explore",
		Why:    "A driver that is asked for the impossible has to guess.",
		Mutant: "saves while it saves"},
	{Name: Panic, Where: "soak",
		Why:    "A panic ends the service that the library runs in.",
		Mutant: "a sender on the list is taken for one that departs"},
}
