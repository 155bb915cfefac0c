package invariant

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

var (
	low  = election.Token{Epoch: 4, Leader: election.Rank{ID: "2"}}
	high = election.Token{Epoch: 5, Leader: election.Rank{ID: "1"}}
)

func TestGivesAway(t *testing.T) {
	for _, c := range []struct {
		name string
		m    election.Message
		want bool
	}{
		{"a beat of its own", election.Message{Kind: election.Beat, Token: high}, false},
		{"one that says that it only drains", election.Message{Kind: election.Beat, Token: high, Draining: true}, true},
		{"its resignation", election.Message{Kind: election.Resign, Token: high}, true},
		{"an earlier resignation", election.Message{Kind: election.Resign, Token: low}, false},
		{"a leadership above it", election.Message{Kind: election.Coordinator, Token: election.Token{Epoch: 6}}, true},
	} {
		if got := GivesAway(high, &c.m); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestBeforeLosing(t *testing.T) {
	lost := election.Action{Kind: election.NotifyLost, Token: high}
	beat := election.Action{Kind: election.Send, Message: &election.Message{Kind: election.Beat}}
	for _, c := range []struct {
		name    string
		actions []election.Action
		first   bool
	}{
		{"loses, then sends", []election.Action{lost, beat}, true},
		{"sends, then loses", []election.Action{beat, lost}, false},
		{"does nothing", nil, false},
		{"tells of a leader", []election.Action{{Kind: election.NotifyElected, Token: low}, lost}, false},
	} {
		if does := BeforeLosing(high, c.actions); (does == "") != c.first {
			t.Errorf("%s: it %q", c.name, does)
		}
	}
}

func TestSkips(t *testing.T) {
	if Skips(high, 4) || Skips(high, 0) || !Skips(election.Token{Epoch: 6}, 0) {
		t.Error("a member may be up to five above what anyone has saved, and no further")
	}
}
