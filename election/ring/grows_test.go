package ring_test

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// second is member 2 of a list ring of three, started at the time it gives.
func second(t *testing.T) (*machine.Machine, time.Time) {
	t.Helper()
	m, err := machine.New(machine.Config{
		Self: election.Rank{ID: "2"}, Algorithm: ring.New(), NoDetector: true,
		Members: []election.Member{{Rank: election.Rank{ID: "1"}}, {Rank: election.Rank{ID: "3"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	m.Step(now, election.Event{Kind: election.Started})
	return m, now
}

// In a ring that grows, a list comes by that is longer than what a member knows: it
// goes on all the same. Dropped, it would be missed for n·(t_max + t_process).
func TestAListLongerThanTheRingThatIsKnownGoesOn(t *testing.T) {
	m, now := second(t)
	list := []election.Rank{{ID: "1"}, {ID: "4"}, {ID: "5"}, {ID: "6"}}
	for _, a := range m.Step(now, election.Event{Kind: election.Received, Message: &election.Message{
		Kind: election.Election, Election: "default", From: "1", To: "2",
		Round: election.Round{Number: 7, Initiator: "6"}, Ring: list, Hops: 9}}) {
		if a.Kind == election.Send && a.To == "3" && a.Message.Kind == election.Election && len(a.Message.Ring) == 5 {
			return
		}
	}
	t.Error("2 knows three members, and keeps a list of four to itself")
}

// A list whose initiator is gone has no home to come to: the round begins anew where
// the ring skips it, and not only once it counts as lost.
func TestARoundWhoseInitiatorIsGoneBeginsAnew(t *testing.T) {
	m, now := second(t)
	m.Step(now, election.Event{Kind: election.PeerDown, Peer: "3"})
	for _, a := range m.Step(now, election.Event{Kind: election.Received, Message: &election.Message{
		Kind: election.Election, Election: "default", From: "1", To: "2",
		Round: election.Round{Number: 7, Initiator: "3"}, Ring: []election.Rank{{ID: "3"}, {ID: "1"}}, Hops: 9}}) {
		if a.Kind == election.Send && a.Message.Kind == election.Election && a.Message.Round.Initiator == "2" {
			return
		}
	}
	t.Error("3 began the round and is gone, and 2 does not begin another")
}
