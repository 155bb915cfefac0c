package invariant

import "github.com/batuta-dev/batuta/election"

// Tokens: which token is claimed, by which member, and how high it is.
const (
	Monotone = "the token never decreases at a running member, nor across an intact file"
	Once     = "a token is claimed once, by the member that it names"
	Claimed  = "a member's leader is one that has claimed that token, or undefined"
	Asked    = "who starts claims above what every member it can reach has on disk"
	Skip     = "epochs follow each other, but for those of claims given up before they were saved"
	OneEpoch = "in calm an epoch names one leader"
)

var ofToken = []Rule{
	{Name: Monotone, Where: "soak, explore", Mutant: "claims the same epoch again",
		Why: "A token fences the work of a leadership: whoever took in a higher one refuses a lower one, so a member that goes back is refused, or does harm where nobody checks."},
	{Name: Once, Where: "soak", Mutant: "forgets its own epoch in a restart",
		Why: "Two leaderships under one token cannot be told apart by what they fence."},
	{Name: Claimed, Where: "soak, explore", Mutant: "follows an epoch of its own",
		Why: "A leader that nobody claims to be does no work, and no beat of it will ever come."},
	{Name: Asked, Where: "soak, explore", Mutant: "claims without asking",
		Why: "A member that has forgotten, or never knew, would begin below what others have seen, and be refused."},
	{Name: Skip, Where: "soak", Mutant: "leaves epochs out",
		Why: "Epochs are finite: whoever raises them at will, or is made to, uses them up."},
	{Name: OneEpoch, Where: "soak", Mutant: "forgets the epochs it hears of",
		Why: "Where nothing is broken, one epoch is one leader: the promise that users count on."},
}

// givenUp is how many claims in a row a member may give up unsaved, at most.
const givenUp = 4

// Skips reports whether the token t of a claim is too far above top, the highest epoch that
// any member has tried to save.
func Skips(t election.Token, top uint64) bool { return t.Epoch > top+1+givenUp }
