package invariant

// Leading: which member may lead, and when.
const (
	Takeover = "nobody claims while a leader leads whom it hears, or for whom somebody can vouch"
	Stands   = "nobody leads who only follows, or is unhealthy"
	Founding = "nobody is the first leader of all before it has heard as many members as it is to wait for, nor who joins"
	Work     = "nobody leads again while its earlier work runs"
	Phases   = "a member's phase moves as the table of moves allows"
	Overlap  = "nobody begins to lead while another's work runs, but after a crash, a freeze or a broken link between the two"
)

var ofLead = []Rule{
	{Name: Takeover, Where: "soak",
		Why:    "A contest while the leader is well interrupts its work for nothing.",
		Mutant: "forgets the vouching"},
	{Name: Stands, Where: "soak",
		Why:    "An observer was asked never to lead; a member that finds itself unhealthy would do the work badly.",
		Mutant: "an observer stands"},
	{Name: Founding, Where: "soak",
		Why:    "Machines that do not reach each other yet would each lead a cluster of its own, for ever.",
		Mutant: "founds a cluster alone"},
	{Name: Work, Where: "soak",
		Why:    "Two runs of the work in one process share its files and connections.",
		Mutant: "forgets that its work runs"},
	{Name: Phases, Where: "soak, explore",
		Why:    "A move that nobody has thought of is a member in a state that nobody has thought of: one that was removed and leads, one that goes from leading to following without a word.",
		Mutant: "a leader that is removed goes without a word"},
	{Name: Overlap, Where: "soak",
		Why:    "Two leaders that work at once is what an election is there to prevent.",
		Mutant: "claims while another's work runs"},
}
