package explore_test

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// bullies makes members of Bully.
func bullies(string, string) (func() election.Algorithm, error) {
	return func() election.Algorithm { return bully.New() }, nil
}

// A walk reaches the states that a search reaches, and its scripts play.
func TestAWalkReachesWhatASearchReaches(t *testing.T) {
	c := explore.Config{Algorithm: "bully", Nodes: 3, Crashes: 1, Restarts: 1, OwnRounds: true}
	r, err := explore.Search(t.Context(), bullies, c)
	if err != nil || r.Violation != nil {
		t.Fatal(err, r.Violation)
	}
	w, err := explore.NewWalk(bullies, c)
	if err != nil {
		t.Fatal(err)
	}
	walked := w.Grow(int(r.States))
	if uint64(walked.States) != r.States || walked.Depth != r.Depth || walked.More || walked.Cut || walked.Broken >= 0 {
		t.Errorf("a walk: %+v; a search: %d states, depth %d", walked, r.States, r.Depth)
	}
	for no := range walked.States {
		text, err := w.Script(no, len(w.Place(no).Ways)-1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenario.Parse("explored", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if _, err := explore.Play(s, bullies, nil); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	c.States = 100
	if w, err = explore.NewWalk(bullies, c); err != nil {
		t.Fatal(err)
	}
	if walked = w.Grow(200); walked.States != 100 || !walked.Cut {
		t.Errorf("a walk of at most 100 states: %+v", walked)
	}
}
