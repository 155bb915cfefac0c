// Package oath has what a guard attests, and when. It makes no commitment, so that the lab's
// simulator needs no cryptography.
package oath

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// Size is that of a secret, in bytes.
const Size = 32

// Oath is what a guard is to attest by the end of a leadership.
type Oath struct {
	Token   election.Token `json:"token"`
	Secret  []byte         `json:"secret"`  // none: there is nothing to attest
	Members []string       `json:"members"` // HOST:PORT of those that are to receive it
}

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
