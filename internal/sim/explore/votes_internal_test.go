package explore

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// Raft counts the answers of an election until the next one. A member repeats its request over a new link, in
// the same election.
func TestARepeatedRequestKeepsTheAnswers(t *testing.T) {
	x := &timed{cluster: cluster{ranks: []election.Rank{{ID: "1"}, {ID: "2"}}}}
	s := &pasts{x: x, messages: map[string]*timedMessage{}}
	asks := &election.Action{Kind: election.Send, To: "2", Message: &election.Message{Kind: "vote", From: "1", To: "2"}}
	at := &instance{votes: 7}
	if s.act(at, linkUp, asks); at.votes != 7 {
		t.Error("a request that is repeated over a new link forgets the answers")
	}
	if s.act(at, itWakes, asks); at.votes != 0 {
		t.Error("the answers to an earlier election count")
	}
}
