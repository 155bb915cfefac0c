package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
)

// One member of five refuses 4 without end, as an earlier process or as removed. 2 and 3 receive 4 and answer it,
// and 5 is dead: 4 waits for 3·T, and claims.
func TestOneMemberThatRefusesDelaysAClaimForAWhile(t *testing.T) {
	for _, why := range []error{ErrOldIncarnation, ErrSameID, ErrRemoved} {
		m, now, claimed := follow(t, "4"), start, time.Duration(0)
		var handle func(got []Action)
		handle = func(got []Action) {
			for _, a := range slices.Clone(got) {
				switch {
				case a.Kind == Save && claimed == 0:
					claimed = now.Sub(start)
				case a.Kind == Send && a.Message.Kind == Probe && (a.To == "2" || a.To == "3"):
					defer func() { handle(m.Step(now, from(a.To, Message{Kind: ProbeReply, Age: -1, Stamp: a.Message.Stamp}))) }()
				}
			}
		}
		for _, id := range []ID{"2", "3"} {
			handle(m.Step(now, Event{Kind: LinkUp, Rank: rank(id), Incarnation: 1}))
		}
		handle(m.Step(now, Event{Kind: DialFailed, Peer: "1", Err: why}))
		handle(m.Step(now, Event{Kind: LinkDown, Peer: "5"}))
		for ; claimed == 0 && now.Sub(start) < time.Minute; now = now.Add(10 * time.Millisecond) {
			if now.Sub(start)%(100*time.Millisecond) == 0 {
				handle(m.Step(now, Event{Kind: DialFailed, Peer: "1", Err: why}))
				handle(m.Step(now, Event{Kind: DialFailed, Peer: "5", Refused: true}))
			}
			for _, id := range []ID{"2", "3"} {
				handle(m.Step(now, from(id, Message{Kind: Pong})))
			}
			handle(m.Step(now, Event{Kind: Woke}))
		}
		if T := 2*DefaultTMax + DefaultTProcess; claimed < 3*T || claimed > 6*T {
			t.Errorf("%v: it claims after %v, want from %v to %v", why, claimed, 3*T, 6*T)
		}
	}
}
