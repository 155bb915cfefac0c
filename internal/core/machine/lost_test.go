package machine_test

import (
	"slices"
	"testing"
	"time"

	. "github.com/batuta-dev/batuta/election"
	. "github.com/batuta-dev/batuta/internal/core/machine"
)

// talks steps m until it claims, or a minute after began is over, while another speaks each 50 ms
// and answers nothing. It counts m's questions to that one, who leads.
func talks(m *Machine, began time.Time, other ID) (questions int, claimed bool) {
	for now := began; now.Sub(began) < time.Minute; now = now.Add(50 * time.Millisecond) {
		for _, ev := range []Event{{Kind: Woke}, from(other, Message{Kind: Pong})} {
			got := m.Step(now, ev)
			if asked(got, other) != 0 {
				questions++
			}
			if slices.Contains(kinds(got), "save") {
				m.Step(now, Event{Kind: Saved})
				return questions, true
			}
		}
	}
	return questions, false
}

// Who lives and has not answered is asked once more before a claim, and not for ever: a program may
// never answer. So it is in the next contest, too.
func TestALostAnswerIsAskedForOnce(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members = members("4", "5") })
	if asked(m.Step(start, Event{Kind: Started}), "4") == 0 {
		t.Fatal("who starts does not ask 4")
	}
	m.Step(start, Event{Kind: LinkUp, Rank: rank("4"), Incarnation: 1})
	if questions, claimed := talks(m, start, "4"); questions != 1 || !claimed {
		t.Errorf("4 is asked %d times more, and 5 claims: %v; want one question more, and a claim", questions, claimed)
	}
	woken := start.Add(time.Hour) // it was stopped, and leads no more
	if questions, claimed := talks(m, woken, "4"); questions != 2 || !claimed {
		t.Errorf("stopped, it asks 4 %d times, and claims: %v; want two questions, and a claim", questions, claimed)
	}
}

// Who refused a connection had nothing to answer: that it runs by now is no reason to ask again.
func TestWhoWasNotThereOwesNoAnswer(t *testing.T) {
	m := newMachine(t, "5", func(c *Config) { c.Members = members("3", "4", "5") })
	m.Step(start, Event{Kind: Started})
	m.Step(start, Event{Kind: DialFailed, Peer: "4", Refused: true})
	m.Step(start.Add(1), from("4", Message{Kind: Pong}))
	if got := m.Step(start.Add(1), from("3", Message{Kind: ProbeReply, Age: -1})); !slices.Contains(kinds(got), "save") {
		t.Errorf("%q, want a claim at once", kinds(got))
	}
}

// A suspicion that has come to nothing leaves no answer owed: the leader's crash is another matter.
func TestASparedLeaderLeavesNoAnswerOwed(t *testing.T) {
	beat := from("5", Message{Kind: Beat, Token: token(3, rank("5"))})
	vouch := from("3", Message{Kind: ProbeReply, Token: token(3, rank("5")), Follows: true, Age: time.Millisecond})
	for name, spared := range map[string]Event{"it is heard": beat, "3 hears it": vouch} {
		m, now := newMachine(t, "4", func(c *Config) { c.Members = members("2", "3", "4", "5") }), start
		m.Step(now, Event{Kind: Started})
		m.Step(now, Event{Kind: LinkUp, Rank: rank("5"), Incarnation: 1})
		m.Step(now, from("5", Message{Kind: Coordinator, Token: token(3, rank("5"))}))
		m.Step(now, Event{Kind: Saved})
		for suspected := false; !suspected && now.Before(start.Add(time.Second)); now = now.Add(10 * time.Millisecond) {
			suspected = asked(m.Step(now, Event{Kind: Woke}), "2") != 0
		}
		m.Step(now, from("2", Message{Kind: Pong}))
		m.Step(now, spared)
		if got := crashed(m, now, "5"); !slices.Contains(kinds(got), "save") {
			t.Errorf("%s: %q, want a claim at once when it crashes", name, kinds(got))
		}
	}
}
