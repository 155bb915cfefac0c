package invariant

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
