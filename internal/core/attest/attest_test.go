package attest_test

import (
	"bytes"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

func secret(of byte) []byte { return bytes.Repeat([]byte{of}, attest.Size) }

// A secret ends the leadership that it was made for, while that is followed, and once.
func TestASecretEndsItsOwnLeadershipAlone(t *testing.T) {
	var o attest.Oaths
	if o.Ends(0, nil) || o.Ends(3, secret(3)) || o.Opens(secret(3)) {
		t.Error("a secret is taken before its commitment")
	}
	o.Follows(3, attest.Of(secret(3)))
	o.Follows(3, attest.Of(secret(9))) // a leadership has one commitment
	for _, of := range [][]byte{nil, {3}, secret(9), secret(4), append(secret(3), 3)} {
		if o.Ends(3, of) || o.Opens(of) {
			t.Errorf("%x ends the leadership of another secret", of)
		}
	}
	if o.Ends(4, secret(3)) || o.Over(3) {
		t.Error("a secret ends a leadership that is not followed")
	}
	if !o.Opens(secret(3)) || !o.Ends(3, secret(3)) || !o.Over(3) {
		t.Error("a secret does not end its own leadership")
	}
	if o.Ends(3, secret(3)) {
		t.Error("a secret ends a leadership twice")
	}
	o.Follows(4, attest.Of(secret(4)))
	if o.Ends(4, secret(3)) || o.Over(4) {
		t.Error("a secret that comes late ends the next leadership")
	}
	if !o.Opens(secret(3)) {
		t.Error("a secret that comes late is taken for a stranger's")
	}
}

func TestALeadershipHasOneCommitment(t *testing.T) {
	var o attest.Oaths
	if o.Swears(0, attest.Of(secret(1))) || o.Swears(2, attest.Commitment{}) {
		t.Error("a commitment of nothing is announced")
	}
	if !o.Swears(2, attest.Of(secret(2))) || o.Swears(2, attest.Of(secret(3))) {
		t.Error("a leadership has another number of commitments than one")
	}
	if o.Sworn(2) != attest.Of(secret(2)) || o.Sworn(3) != (attest.Commitment{}) {
		t.Error("a commitment is announced for another leadership")
	}
}

// A guard attests when the process is dead and its work gone, not before.
func TestAGuardAttestsWhatItHasSeen(t *testing.T) {
	oath := attest.Oath{Token: election.Token{Epoch: 2}, Secret: secret(2)}
	for _, c := range []struct {
		what                       string
		sworn, works, dead, barred bool
		want                       bool
	}{
		{"all is gone", true, false, true, false, true},
		{"there is no oath", false, false, true, false, false},
		{"work is left", true, true, true, false, false},
		{"the process lives", true, false, false, false, false},
		{"it may not kill", true, false, true, true, false},
	} {
		var w attest.Witness
		w.Works(true)
		w.Works(c.works)
		if c.sworn {
			w.Takes(oath)
		}
		if c.dead {
			w.Died()
		}
		if c.barred {
			w.Bar("it may not kill")
		}
		if _, got := w.Attests(); got != c.want {
			t.Errorf("%s: it attests: %v", c.what, got)
		}
	}
}
