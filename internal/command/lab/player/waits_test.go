package player_test

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/command/lab/player"
)

// What runs out is that of the members' own cores: T of a follower ends when it suspects, and a
// lease ends before a promise that it rests on.
func TestWaits(t *testing.T) {
	p := player.Play("members 1 2 3\nsettled\nseed 4\nrun 300ms\nfreeze 3\nrun 2s\n")
	suspects := -1.0
	for _, e := range p.Events {
		if e.What == "suspects" && suspects < 0 {
			suspects = e.At
		}
	}
	var met, asked bool
	for _, w := range p.Waits {
		met = met || w.For == "leader" && w.Peer == "3" && w.Until == suspects && w.Ended >= suspects && w.From < 400
		asked = asked || w.For == "answers" && w.From == suspects
		if w.From > w.Ended || w.Ended > p.Elapsed {
			t.Errorf("%+v", w)
		}
	}
	if suspects < 0 || !met || !asked {
		t.Errorf("no T ran out at %v, or nobody was asked then: %+v", suspects, p.Waits)
	}

	q := player.Play("members 1 2 3 4 5\nalgorithm quorum\nseed 2\nlatency 20ms 40ms\nrun 1s\npartition 4,5 | 1,2,3\nrun 4s\n")
	gave := 0.0
	for _, e := range q.Events {
		if e.What == "steps down" {
			gave = e.At
			break
		}
	}
	var lease, promise float64
	most := [5]int{}
	for _, w := range q.Waits {
		switch {
		case w.For == "lease" && w.Member == 4:
			lease = max(lease, w.Until)
		case w.For == "promise" && w.Member < 3 && w.Peer == "5":
			promise = max(promise, w.Until)
		case w.For == "votes" && w.From > gave:
			most[w.Member] = max(most[w.Member], w.Got)
			if w.Need != 3 {
				t.Errorf("%+v", w)
			}
		}
	}
	if gave == 0 || lease > gave || promise <= lease {
		t.Errorf("steps down at %v, its lease ends at %v, the promises at %v", gave, lease, promise)
	}
	if most[3] > 2 || most[4] > 2 || max(most[0], most[1], most[2]) < 2 {
		t.Errorf("votes granted after the partition: %v", most)
	}
}
