package alarm

import (
	"slices"
	"testing"
	"time"
)

func TestAlarms(t *testing.T) {
	at := func(s int) time.Time { return time.Time{}.Add(time.Duration(s) * time.Second) }
	var a Alarms
	a.Set("own:a", at(3))
	a.Set("b", at(2))
	a.Set("own:c", at(2))
	if got := a.Deadline(); got != at(2) {
		t.Errorf("the deadline is %v", got)
	}
	if name, ok := a.Due(at(1)); ok {
		t.Errorf("%s is due too early", name)
	}
	if name, _ := a.Due(at(3)); name != "b" {
		t.Errorf("%s is due first; of two at one time it is the one that was set first", name)
	}
	a.ExtendOthers("own:", at(5))
	a.Extend("own:c", at(1))
	if name, _ := a.Due(at(9)); name != "own:c" {
		t.Errorf("%s is due first after b was extended; no timer is ever brought forward", name)
	}
	copied := a.Clone()
	if !a.Cancel("own:c") || a.Cancel("own:c") {
		t.Error("a timer is canceled once")
	}
	a.Set("own:a", at(7))
	if got := a.Names(); !slices.Equal(got, []string{"b", "own:a"}) {
		t.Errorf("armed are %v", got)
	}
	if got := copied.Names(); !slices.Equal(got, []string{"own:a", "b", "own:c"}) {
		t.Errorf("the copy has %v", got)
	}
	if a.Review(); a.Deadline() != at(5) {
		t.Errorf("the deadline is %v by now", a.Deadline())
	}
}
