package machine

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
)

// A member of a ring pings its successor. Where heartbeats and acknowledgements pass between the two,
// it pings only to prove that a message has arrived.
func TestHeartbeatsServeAsPings(t *testing.T) {
	const beats = 10
	for _, c := range []struct {
		name       string
		self, next election.ID
		sends      bool
		least      int
		most       int
	}{
		{"its successor leads", "2", "3", false, 0, 0},
		{"its successor leads, and is sent what needs proof", "2", "3", true, 1, 2},
		{"its successor follows too", "1", "2", false, beats / 2, beats},
		{"it leads", "3", "1", false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if pings := pingsOf(t, c.self, c.next, beats, c.sends); pings < c.least || pings > c.most {
				t.Errorf("%d pings within %d heartbeats, not %d to %d", pings, beats, c.least, c.most)
			}
		})
	}
}

// pingsOf counts the pings of a member to its successor, which answers each, in the leadership of 3.
func pingsOf(t *testing.T, self, next election.ID, beats int, sends bool) (pings int) {
	rank := func(id election.ID) election.Rank { return election.Rank{ID: id} }
	leads := election.Token{Epoch: 1, Leader: rank("3")}
	m, err := New(Config{Self: rank(self), Members: []election.Member{{Rank: rank("1")}, {Rank: rank("2")}, {Rank: rank("3")}}, Algorithm: ring.New(), Incarnation: 7, Following: leads})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	beat := int64(0) // stamp of the last
	step := func(ev election.Event) {
		var answers []*election.Message
		for _, a := range m.Step(now, ev) {
			if a.Kind == election.Send && a.Message.Kind == election.Beat {
				beat = a.Message.Stamp
			}
			if a.Kind == election.Send && a.Message.Kind == election.Ping {
				pings++
				answers = append(answers, &election.Message{Kind: election.Pong, From: a.To, Stamp: a.Message.Stamp})
			}
		}
		for _, msg := range answers {
			msg.To, msg.Election, msg.Token, msg.Digest = self, "default", leads, m.roster.Digest()
			m.Step(now, election.Event{Kind: election.Received, Message: msg})
		}
	}
	step(election.Event{Kind: election.Started})
	for _, id := range []election.ID{"1", "2", "3"} {
		if id == next || self != "3" && id == "3" || self == "3" && id != "3" {
			step(election.Event{Kind: election.LinkUp, Peer: id, Rank: rank(id), Incarnation: 1})
		}
	}
	if m.watched != next {
		t.Fatalf("it watches %s", m.watched)
	}
	if sends {
		m.post(m.index[next], &election.Message{Kind: election.Coordinator, From: self, To: next, Election: "default", Token: leads})
	}
	heartbeat := m.cfg.Timing.Heartbeat
	for i := range beats {
		end := now.Add(heartbeat)
		for at, ok := m.Deadline(); ok && !at.After(end); at, ok = m.Deadline() {
			now = at
			step(election.Event{Kind: election.Woke})
		}
		now = end
		if self == "3" {
			for _, id := range []election.ID{"1", "2"} {
				step(election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Ack, Election: "default", From: id, To: self, Token: leads, Stamp: beat, Digest: m.roster.Digest()}})
			}
		} else {
			step(election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Beat, Election: "default", From: "3", To: self, Token: leads, Highest: 1, Stamp: int64(i + 1), Digest: m.roster.Digest()}})
		}
		if m.View() != leads {
			t.Fatalf("its leader is %v", m.View())
		}
	}
	return pings
}
