package explore_test

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/quorum"
)

// quorums makes members of a quorum.
func quorums(string, string) (func() election.Algorithm, error) {
	return func() election.Algorithm { return quorum.New(quorum.WithTakeover(quorum.TakeoverLease)) }, nil
}

// Three members of a quorum, and every order of what may befall them, to the end.
func TestEveryOrderOfAQuorum(t *testing.T) {
	searches := []struct {
		c      explore.Config
		states uint64
	}{
		{explore.Config{}, 6},
		{explore.Config{Crashes: 1}, 175},
		{explore.Config{Suspicions: 1}, 6_002},
	}
	if fulltest.Enabled() {
		searches = append(searches, []struct {
			c      explore.Config
			states uint64
		}{
			{explore.Config{Crashes: 1, Restarts: 1}, 85_255},
			{explore.Config{Crashes: 1, Suspicions: 1}, 122_060},
		}...)
	}
	for _, s := range searches {
		s.c.Algorithm, s.c.Nodes = "quorum", 3
		r, err := explore.Search(t.Context(), quorums, s.c)
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
