package sim

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// What is promised holds for links within t_max: shrinking does not leave that, for it would
// end at a violation of another kind than the one that it began with.
func TestShrinkingKeepsLinksWithinTMax(t *testing.T) {
	s, err := scenario.Parse("far", "members 1 2\nheartbeat 300ms\nt_max 1s\nt_process 500ms\nlatency 1-2 600ms 700ms\nsettle\n")
	if err != nil {
		t.Fatal(err)
	}
	k := shrinker{best: s, plays: 1}
	if k.try(func(s *scenario.Scenario) { s.Setup.Timing = election.Timing{} }) || k.plays != 1 {
		t.Error("links of 700 ms are tried with a t_max of 150 ms")
	}
	if s.Setup.Links[0].Max != 700*time.Millisecond || tooFar(s) {
		t.Errorf("a link of %v counts as too slow for a t_max of 1s", s.Setup.Links[0].Max)
	}
}
