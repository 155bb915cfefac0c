package bully_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// ANSWER means that its sender goes on with the election: only a higher rank may send it.
func TestOnlyAHigherRankAnswers(t *testing.T) {
	for from, want := range map[election.ID]bool{"1": true, "3": false} {
		m, err := machine.New(machine.Config{
			Self: election.Rank{ID: "2"}, Algorithm: bully.New(), NoDetector: true,
			Members: []election.Member{{Rank: election.Rank{ID: "1"}}, {Rank: election.Rank{ID: "3"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		m.Step(now, election.Event{Kind: election.Started})
		answered := false
		for _, a := range m.Step(now, election.Event{Kind: election.Received, Message: &election.Message{
			Kind: election.Election, Election: "default", From: from, Round: election.Round{Number: 1, Initiator: from}}}) {
			answered = answered || a.Kind == election.Send && a.Message.Kind == election.Answer
		}
		if answered != want {
			t.Errorf("2 answers %s: %v, want %v", from, answered, want)
		}
	}
}

// ANSWER promises to take over: who may not lead does not give it.
func TestWhoDoesNotStandDoesNotAnswer(t *testing.T) {
	for _, observer := range []bool{false, true} {
		m, err := machine.New(machine.Config{
			Self: election.Rank{ID: "2"}, Algorithm: bully.New(), NoDetector: true, Observer: observer,
			Members:   []election.Member{{Rank: election.Rank{ID: "1"}}, {Rank: election.Rank{ID: "3"}}},
			Following: election.Token{Epoch: 1, Leader: election.Rank{ID: "3"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		now, answered := time.Unix(1, 0), false
		m.Step(now, election.Event{Kind: election.Started})
		for _, a := range m.Step(now, election.Event{Kind: election.Received, Message: &election.Message{
			Kind: election.Election, Election: "default", From: "1", Round: election.Round{Number: 1, Initiator: "1"}}}) {
			answered = answered || a.Kind == election.Send && a.Message.Kind == election.Answer
		}
		if answered == observer {
			t.Errorf("an observer: %v; it answers: %v", observer, answered)
		}
	}
}

// contest is member 4 of 1…5, stepped by hand, which has just asked 5.
type contest struct {
	*machine.Machine
	now time.Time
}

func newContest(t *testing.T) *contest {
	t.Helper()
	c := machine.Config{Self: election.Rank{ID: "4"}, Algorithm: bully.New(), NoDetector: true,
		Following: election.Token{Epoch: 1, Leader: election.Rank{ID: "5"}}}
	for _, id := range []election.ID{"1", "2", "3", "5"} {
		c.Members = append(c.Members, election.Member{Rank: election.Rank{ID: id}})
	}
	m, err := machine.New(c)
	if err != nil {
		t.Fatal(err)
	}
	x := &contest{m, time.Unix(1, 0)}
	x.does(election.Event{Kind: election.Started})
	if got := x.does(election.Event{Kind: election.Campaign}); got != "election" {
		t.Fatalf("it is asked to campaign and does %q, want one election", got)
	}
	return x
}

// does tells what an event makes it send, without what goes to several, and "save".
func (x *contest) does(ev election.Event) string {
	var did []string
	for _, a := range x.Step(x.now, ev) {
		switch a.Kind {
		case election.Send:
			did = append(did, string(a.Message.Kind))
		case election.Save:
			did = append(did, "save")
		}
	}
	return strings.Join(slices.Compact(did), " ")
}

func (x *contest) answered() string {
	return x.does(election.Event{Kind: election.Received, Message: &election.Message{
		Kind: election.Answer, Election: "default", From: "5", Round: election.Round{Number: 1, Initiator: "4"}}})
}

// later lets time pass until something comes of it.
func (x *contest) later() string {
	for range 10 {
		x.now, _ = x.Deadline()
		if did := x.does(election.Event{Kind: election.Woke}); did != "" {
			return did
		}
	}
	return ""
}

// Every wait of a contest has an end.
func TestEveryWaitEnds(t *testing.T) {
	if got := newContest(t).later(); got != "save" {
		t.Errorf("nobody answers: it does %q, want a claim", got)
	}
	x := newContest(t)
	x.answered()
	if got := x.later(); got != "query" {
		t.Errorf("who answered does not announce itself: it does %q, want to ask who has won", got)
	}
	x = newContest(t)
	x.answered()
	if got := x.does(election.Event{Kind: election.PeerDown, Peer: "5"}); got != "query" {
		t.Errorf("who answered is gone: it does %q, want to ask who has won", got)
	}
}

// A leader was elected with another priority than it has now. It leads on, and announces itself when asked to campaign.
func TestALeaderWithANewPriorityAnnouncesItself(t *testing.T) {
	for _, elected := range []int{0, 5, 9} {
		m, err := machine.New(machine.Config{Self: election.Rank{ID: "4", Priority: 5}, Algorithm: bully.New(), NoDetector: true,
			Following: election.Token{Epoch: 1, Leader: election.Rank{ID: "4", Priority: elected}},
			Members:   []election.Member{{Rank: election.Rank{ID: "5"}}}})
		if err != nil {
			t.Fatal(err)
		}
		x := &contest{m, time.Unix(1, 0)}
		x.does(election.Event{Kind: election.Started})
		if got := x.does(election.Event{Kind: election.Campaign}); got != "coordinator" {
			t.Errorf("elected with priority %d, a leader with priority 5 is asked to campaign and does %q", elected, got)
		}
	}
}
