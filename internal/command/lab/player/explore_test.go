package player_test

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/command/lab/player"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// Every way leads from a state to another, and its script plays to there.
func TestExplore(t *testing.T) {
	for _, algorithm := range []string{"bully", "ring", "chang-roberts"} {
		e, err := player.Explore(player.ExploreConfig{Algorithm: algorithm, Nodes: 3, Crashes: 1})
		if err != nil {
			t.Fatal(err)
		}
		var r explore.Walked
		for r.More = true; r.More; {
			r = e.Grow(500)
		}
		if r.Broken >= 0 || r.Cut || r.States < 20 || r.Expanded != r.States {
			t.Errorf("%s: %+v", algorithm, r)
		}
		rests := 0
		for no := range r.States {
			p := e.Place(no)
			if p.Rests {
				rests++
			}
			if no > 0 && (p.From < 0 || e.Place(p.From).Depth != p.Depth-1) {
				t.Errorf("%s: state %d comes from %d", algorithm, no, p.From)
			}
			for _, w := range p.Ways {
				if w.To < 0 || w.To >= r.States {
					t.Errorf("%s: from state %d, %q leads to %d", algorithm, no, w.Step, w.To)
				}
			}
		}
		if rests == 0 {
			t.Errorf("%s: no state is at rest", algorithm)
		}
		text, err := e.Script(r.States-1, -1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := scenario.Parse("explored", text); err != nil {
			t.Errorf("%s: %v\n%s", algorithm, err, text)
		}
		if p := player.Play(text); p.Fault != nil || p.Failure != "" {
			t.Errorf("%s: %+v %s\n%s", algorithm, p.Fault, p.Failure, text)
		}
	}
	if _, err := player.Explore(player.ExploreConfig{Algorithm: "quorum", Nodes: 3}); err == nil {
		t.Error("quorum cannot be explored, and nobody says so")
	}
}
