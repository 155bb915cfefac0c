package invariant

import "github.com/batuta-dev/batuta/election"

// Tokens: which token is claimed, by which member, and how high it is.
const (
	Monotone = "the token never decreases at a running member, nor across an intact file"
	Once     = "a token is claimed once, by the member that it names"
	Claimed  = "a member's leader is one that has claimed that token, or undefined"
	Asked    = "a member that starts claims above what every member it can reach has on disk"
	Skip     = "epochs follow each other, except those of claims withdrawn before they were saved"
	OneEpoch = "without faults an epoch names one leader"
)

// givenUp is how many claims in a row a member may give up unsaved, at most.
const givenUp = 4

// Skips reports whether the token t of a claim is too far above top, the highest epoch that
// any member has tried to save.
func Skips(t election.Token, top uint64) bool { return t.Epoch > top+1+givenUp }
