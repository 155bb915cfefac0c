// Package attest proves that a leadership is over: its process is dead, and nothing of its
// work is left.
//
// A leader announces a commitment to each voter, the hash of a secret that its guard alone has
// beside it. The guard is a process on the same machine, which sends the secret once it has
// seen the end of the leader's process and of its work. The secret opens the commitment of that
// leadership alone.
package attest

import (
	"crypto/sha256"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// Size is that of a secret, and of a commitment, in bytes.
const Size = 32

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

// Oath is what a guard is to attest by the end of a leadership.
type Oath struct {
	Token   election.Token `json:"token"`
	Secret  []byte         `json:"secret"`  // none: there is nothing to attest
	Members []string       `json:"members"` // HOST:PORT of those that are to receive it
}

// Commitment is what the leader announces for it.
func (o Oath) Commitment() Commitment { return Of(o.Secret) }

// Guard is what a leader has of its guard.
type Guard interface {
	// Swear replaces what the guard is to attest. It does not wait. The guard keeps no copy on disk.
	Swear(o Oath)
	// Bars is why the guard attests nothing; empty: nothing bars it.
	Bars() string
}

// Witness decides when a guard attests. It is a part of the guard, which reports to it what it
// sees. The zero value has seen nothing.
type Witness struct {
	oath  Oath
	works bool   // something of the work is left, or may be
	dead  bool   // the leader's process is
	bars  string // why it does not attest, whatever it sees
}

// Takes replaces the oath.
func (w *Witness) Takes(o Oath) {
	o.Members = slices.Clone(o.Members)
	w.oath = o
}

// Works notes that work begins, or that nothing of it is left.
func (w *Witness) Works(on bool) { w.works = on }

// Bar has it attest nothing, because of why.
func (w *Witness) Bar(why string) { w.bars = why }

// Barred is why it attests nothing; empty: nothing bars it.
func (w *Witness) Barred() string { return w.bars }

// Died notes that the leader's process is dead.
func (w *Witness) Died() { w.dead = true }

// Swore reports whether there is something to attest, once all has ended.
func (w *Witness) Swore() bool { return len(w.oath.Secret) == Size && w.bars == "" }

// Attests gives what is to be sent now. Nothing is before the process is dead and its work gone.
func (w *Witness) Attests() (Oath, bool) {
	return w.oath, w.dead && !w.works && w.Swore()
}
