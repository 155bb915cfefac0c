package states

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

func TestAReportIsMadeOnceForEachVersion(t *testing.T) {
	var r Report
	made := 0
	list := func() []election.MemberReport {
		made++
		return []election.MemberReport{{ID: "1", Epoch: uint64(made)}}
	}
	if r.Version() != 0 {
		t.Errorf("the first version is %d", r.Version())
	}
	r.Changed()
	r.Changed()
	first := r.States(list)
	other := r // a copy is independent
	if r.Version() != 2 || made != 1 || &r.States(list)[0] != &first[0] || made != 1 {
		t.Errorf("version %d, made %d times", r.Version(), made)
	}
	r.Changed()
	if r.States(list)[0].Epoch != 2 || first[0].Epoch != 1 || other.Version() != 2 || other.States(list)[0].Epoch != 1 || made != 2 {
		t.Errorf("made %d times: %v after %v", made, r, first)
	}
}
