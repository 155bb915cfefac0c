package agent

import (
	"testing"

	"github.com/batuta-dev/batuta"
)

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
