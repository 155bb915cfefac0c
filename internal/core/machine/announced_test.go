package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
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

// A follower records why its leader ends, as far as the announcement has the reason.
func TestAFollowerRecordsWhyItsLeaderEnds(t *testing.T) {
	for _, test := range []struct {
		end  Message
		want string
	}{
		{Message{Heir: "3"}, "resigned: it hands over to 3"},
		{Message{Heir: "3", Eligibility: IneligibleResigned}, "resigned: it hands over to 3"},
		{Message{Eligibility: IneligibleClosing}, "resigned: it is no candidate: closing"},
		{Message{Cause: CauseSilent, Eligibility: IneligibleResigned}, "silent: it announced its end"},
		{Message{}, "resigned: it announced its end"},
	} {
		var why []string
		m := newMachine(t, "2", func(c *Config) {
			c.Trace = func(r Record) {
				if r.What == "loses" {
					why = append(why, r.Why)
				}
			}
		})
		m.Step(start, Event{Kind: Started})
		m.Step(start, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
		m.Step(start, from("5", Message{Kind: Coordinator, Token: token(3, rank("5"))}))
		m.Step(start, Event{Kind: Saved})
		test.end.Kind, test.end.Token = Resign, token(3, rank("5"))
		m.Step(start, from("5", test.end))
		if !slices.Equal(why, []string{test.want}) {
			t.Errorf("%+v: %q, want %q", test.end, why, test.want)
		}
	}
}
