package simtest_test

import (
	"testing"

	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// Three members of a quorum, and every order of what may befall them, to the end.
func TestEveryOrderOfAQuorum(t *testing.T) {
	searches := []struct {
		c      explore.Config
		states uint64
	}{
		{explore.Config{}, 6},
		{explore.Config{Crashes: 1}, 175},
		{explore.Config{Suspicions: 1}, 5_731},
	}
	if fulltest.Enabled() {
		searches = append(searches, []struct {
			c      explore.Config
			states uint64
		}{
			{explore.Config{Crashes: 1, Restarts: 1}, 58_892},
			{explore.Config{Crashes: 1, Suspicions: 1}, 115_689},
		}...)
	}
	for i, s := range searches {
		s.c.Algorithm, s.c.Nodes, s.c.Order = "quorum", 3, uint64(i) // no order changes what is found
		r, err := explore.Search(t.Context(), anyMaker, s.c)
		switch {
		case err != nil:
			t.Fatal(err)
		case r.Violation != nil:
			t.Fatalf("%v\n%s", r.Violation, r.Scenario)
		case !r.Complete || r.States != s.states:
			t.Errorf("%+v: %d states, complete: %v; want %d", s.c, r.States, r.Complete, s.states)
		}
	}
}
