package api

import (
	"encoding/json"
	"testing"

	"github.com/batuta-dev/batuta"
)

// An incarnation is a time in nanoseconds, which a float64 does not hold.
func TestAnIncarnationSurvivesEveryReader(t *testing.T) {
	const n = 1795499170850694344
	text, err := json.Marshal(Status{Incarnation: n})
	if err != nil {
		t.Fatal(err)
	}
	var loose map[string]any // as JavaScript reads it
	if err := json.Unmarshal(text, &loose); err != nil || loose["incarnation"] != "1795499170850694344" {
		t.Errorf("a reader of float64 sees %v, %v", loose["incarnation"], err)
	}
	for _, text := range []string{string(text), `{"incarnation":1795499170850694344}`} { // the second by an earlier version
		var s Status
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Incarnation != n {
			t.Errorf("%s is read as %d, %v", text, s.Incarnation, err)
		}
	}
	var s Status
	if err := json.Unmarshal([]byte(`{"incarnation":"x"}`), &s); err == nil {
		t.Error("an incarnation of letters is taken")
	}
}

func TestWhoSpeaksToTheLeaderAlone(t *testing.T) {
	led := batuta.Token{Epoch: 1, Leader: batuta.Rank{ID: "5"}}
	ring := &batuta.RingStatus{Successor: "2"}
	for _, tt := range []struct {
		what   string
		asked  batuta.ID
		token  batuta.Token
		ring   *batuta.RingStatus
		member batuta.ID
		state  batuta.MemberState
		want   bool
	}{
		{"another follower", "3", led, nil, "2", "up", true},
		{"another follower that is down", "3", led, nil, "2", "down", false},
		{"itself", "3", led, nil, "3", "up", false},
		{"the leader", "3", led, nil, "5", "up", false},
		{"a follower, at the leader", "5", led, nil, "2", "up", false},
		{"another, while nobody leads", "3", batuta.Token{}, nil, "2", "up", false},
		{"the next in the ring", "3", led, ring, "2", "up", false},
		{"not the next in the ring", "3", led, ring, "1", "up", true},
	} {
		s := batuta.Status{ID: tt.asked, Token: tt.token, Leader: tt.token.Leader.ID, Ring: tt.ring,
			Members: []batuta.MemberStatus{{ID: tt.member, State: tt.state}}}
		if got := membersOf(s)[0].Indirect; got != tt.want {
			t.Errorf("%s: %v", tt.what, got)
		}
	}
}

func TestASideCountsTheMemberItself(t *testing.T) {
	s := batuta.Status{ID: "3", Members: []batuta.MemberStatus{{ID: "1", State: "up"}, {ID: "2", State: "unreachable"}, {ID: "3"}, {ID: "4", State: "removed"}, {ID: "5", State: "down"}}}
	if got := sideOf(s); got != (Side{2, 4}) {
		t.Errorf("%+v", got)
	}
}
