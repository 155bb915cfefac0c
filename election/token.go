package election

import (
	"cmp"
	"fmt"
)

// Rank is what the election compares: priority first, then id. The highest rank wins, hence
// "bully".
type Rank struct {
	Priority int `cbor:"p,omitempty"`
	ID       ID  `cbor:"i,omitempty"`
}

// Compare orders ranks: it is negative when r is below other.
func (r Rank) Compare(other Rank) int {
	return cmp.Or(cmp.Compare(r.Priority, other.Priority), r.ID.Compare(other.ID))
}

// Above reports whether r outranks other.
func (r Rank) Above(other Rank) bool { return r.Compare(other) > 0 }

// MaxEpoch is the highest epoch that batuta accepts: 2^53−1, the largest integer that every JSON
// reader keeps exact. At an election per millisecond it lasts 285,000 years. A message beyond it
// is damaged or malicious and is dropped.
const MaxEpoch = 1<<53 - 1

// Token identifies a leadership: the epoch, "constant from leader election to leader death,
// bumped by a new round" (docs/sources.md, "Epochs"), and its leader. Tokens are ordered by
// epoch, then rank. The zero Token is no leadership, below all tokens.
//
// Two sides of a partition may count the same epoch: compare the token, by [Token.Compare],
// never the epoch alone. Only under quorum is it a fence.
type Token struct {
	Epoch  uint64 `cbor:"e,omitempty"`
	Leader Rank   `cbor:"l,omitempty"`
}

// Compare orders tokens: it is negative when t is below other.
func (t Token) Compare(other Token) int {
	return cmp.Or(cmp.Compare(t.Epoch, other.Epoch), t.Leader.Compare(other.Leader))
}

// Above reports whether t is higher than other.
func (t Token) Above(other Token) bool { return t.Compare(other) > 0 }

// Defined reports whether the token names a leader.
func (t Token) Defined() bool { return t.Leader.ID != None }

// String returns "epoch:leader", such as "7:5", and "" when there is no leader.
func (t Token) String() string {
	if !t.Defined() {
		return ""
	}
	return fmt.Sprintf("%d:%s", t.Epoch, t.Leader.ID)
}
