package machine_test

import (
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
)

// The end of an earlier leadership arrives late: what is known of the end of a later one stays.
func TestALateEndHidesNoLaterEnd(t *testing.T) {
	for _, late := range []bool{false, true} {
		m := newMachine(t, "1", nil)
		m.Step(start, Event{Kind: Started})
		for _, id := range []ID{"2", "3", "4"} {
			m.Step(start, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1})
		}
		m.Step(start, from("4", Message{Kind: Resign, Token: token(6, rank("4")), Highest: 6}))
		if late { // over a slower link
			m.Step(start, from("3", Message{Kind: Resign, Token: token(5, rank("3")), Highest: 6}))
		}
		// 2 has not received the end yet
		m.Step(start.Add(time.Millisecond), from("2", Message{Kind: ProbeReply, Token: token(6, rank("4")), Highest: 6, Follows: true, Age: 50 * time.Millisecond}))
		m.Step(start.Add(2*time.Millisecond), Event{Kind: Saved})
		if m.View().Defined() {
			t.Errorf("a late end of an earlier leadership came: %v, and it follows %v, which has ended", late, m.View())
		}
	}
}
