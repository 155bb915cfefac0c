package invariant

// Named elections: who leads a name, and whose share it is.
const (
	NamedOnce   = "a named election is led by one member at a time: under quorum ever, else where nothing is broken between the two and their coordinator"
	NamedRises  = "the epochs of a named election rise: at each member, and under quorum everywhere"
	NamedLost   = "every lead of a named election is lost, once, before the next begins"
	NamedLed    = "once faults stop, each named election with a live candidate is led, in bounded time, and everyone sees by whom"
	NamedShares = "in calm no member's share of the named elections is more than one heaviest above another's who could take one"
)

var ofNamed = []Rule{
	{Name: NamedOnce, Where: "soak with elections",
		Why: "Two that do a shard's work at once is what an election is there to prevent."},
	{Name: NamedRises, Where: "soak with elections",
		Why: "A store that fences by the token takes the later leader for the earlier."},
	{Name: NamedLost, Where: "soak with elections",
		Why: "A watcher starts work at one event and stops it at the other. No mutant: unpaired events come of several mistakes at once."},
	{Name: NamedLed, Where: "soak with elections",
		Why: "A shard that nobody leads does nothing."},
	{Name: NamedShares, Where: "soak with elections",
		Why: "Elections are spread so that no member bears the others' load."},
}
