// Package attest proves that a leadership is over: its process is dead, and nothing of its
// work is left.
//
// A leader announces a commitment to each voter: the hash of a secret that only the leader and its
// guard have. The guard is a process on the same machine, which sends the secret once it has
// seen the end of the leader's process and of its work. The secret opens the commitment of that
// leadership only.
package attest

import (
	"crypto/sha256"

	"github.com/batuta-dev/batuta/internal/core/attest/oath"
)

// Size is that of a secret, and of a commitment, in bytes.
const Size = oath.Size

// What a guard has: see package oath.
type (
	Oath    = oath.Oath
	Guard   = oath.Guard
	Witness = oath.Witness
)

// Commitment is SHA-256 of a secret; the zero value is none.
type Commitment [Size]byte

// Of gives the commitment of a secret; none if that has not [Size] bytes.
func Of(secret []byte) Commitment {
	if len(secret) != Size {
		return Commitment{}
	}
	return sha256.Sum256(secret)
}

// Oaths are the commitments that a member knows. The zero value knows none.
type Oaths struct {
	own      sworn // of its own leadership
	followed sworn // of the leadership that it follows
	before   sworn // of the leadership before: its secret may come late
	ended    uint64
}

// sworn is the commitment of the leadership of a term.
type sworn struct {
	term       uint64
	commitment Commitment
}

func (s sworn) opens(c Commitment) bool { return c != Commitment{} && s.commitment == c }

// Swears notes the commitment of this member's own leadership. It reports whether that is new:
// a leadership keeps the first.
func (o *Oaths) Swears(term uint64, c Commitment) bool {
	if term == 0 || c == (Commitment{}) || o.own.term == term {
		return false
	}
	o.own = sworn{term, c}
	return true
}

// Sworn is the commitment of this member's own leadership of a term; none: it has announced none.
func (o *Oaths) Sworn(term uint64) Commitment {
	if o.own.term != term {
		return Commitment{}
	}
	return o.own.commitment
}

// Follows notes the commitment that the leader of a term announces, as it is followed.
func (o *Oaths) Follows(term uint64, c Commitment) {
	if c == (Commitment{}) || o.followed.term == term {
		return
	}
	o.followed, o.before = sworn{term, c}, o.followed
}

// Opens reports whether a secret is that of a leadership which this member follows, or followed
// before.
func (o *Oaths) Opens(secret []byte) bool {
	c := Of(secret)
	return o.followed.opens(c) || o.before.opens(c)
}

// Ends reports whether a secret ends the leadership of a term, which this member follows. A
// second copy does not.
func (o *Oaths) Ends(term uint64, secret []byte) bool {
	if o.followed.term != term || o.ended == term || !o.followed.opens(Of(secret)) {
		return false
	}
	o.ended = term
	return true
}

// Over reports whether the leadership of a term is proven to be over.
func (o *Oaths) Over(term uint64) bool { return term != 0 && o.ended == term }

// Commits gives the commitment of a secret, as an event has it.
func (o *Oaths) Commits(secret []byte) []byte {
	c := Of(secret)
	return c[:]
}
