package bully_test

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/bully"
	"github.com/batuta-dev/batuta/election"
)

// ANSWER says "stand back, I take it from here": only a higher rank may.
func TestOnlyAHigherRankAnswers(t *testing.T) {
	for from, want := range map[election.ID]bool{"1": true, "3": false} {
		m, err := election.New(election.Config{
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
		m, err := election.New(election.Config{
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
