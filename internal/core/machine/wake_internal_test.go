package machine

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
)

// A question to relays has an end, at which the member is stepped at the latest.
func TestTheEndOfAQuestionToRelaysIsADeadline(t *testing.T) {
	rank := func(id election.ID) election.Rank { return election.Rank{ID: id} }
	m, err := New(Config{Self: rank("2"), Members: []election.Member{{Rank: rank("1")}, {Rank: rank("3")}, {Rank: rank("5")}}, Algorithm: bully.New(), Incarnation: 7})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	m.Step(now, election.Event{Kind: election.Started})
	for _, id := range []election.ID{"1", "3"} {
		m.Step(now, election.Event{Kind: election.LinkUp, Rank: rank(id), Incarnation: 1})
	}
	now = now.Add(10 * time.Millisecond)
	m.Step(now, election.Event{Kind: election.DialFailed, Peer: "5"})
	asked := &m.members[m.index["5"]]
	if len(asked.pingers) == 0 {
		t.Fatal("it asks no relay")
	}
	for len(asked.pingers) > 0 {
		due, ok := m.Deadline()
		if !ok || due.After(asked.until) {
			t.Fatalf("it asks relays until %v, and is to be stepped at %v", asked.until, due)
		}
		if due.After(now) {
			now = due
		}
		m.Step(now, election.Event{Kind: election.Woke})
	}
}
