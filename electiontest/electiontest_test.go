package electiontest_test

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

func init() { fulltest.MostlyComputes() }

func TestBully(t *testing.T) {
	electiontest.Run(t, func() election.Algorithm { return bully.New() })
}

func TestBullyAsksAll(t *testing.T) {
	electiontest.Run(t, func() election.Algorithm { return bully.New(bully.WithProbe(bully.All)) })
}

// A user's own algorithm is tried in the same way.
func TestPatient(t *testing.T) {
	electiontest.Run(t, func() election.Algorithm { return &patient{} })
}

// shy never claims.
type shy struct{ steps int }

func (*shy) Name() string { return "shy" }

func (h *shy) Step(election.Event, election.Actions) { h.steps++ }

// What the kit plays is able to fail.
func TestShyIsCaught(t *testing.T) {
	maker := func(string, string) (func() election.Algorithm, error) {
		return func() election.Algorithm { return &shy{} }, nil
	}
	r, err := sim.Soak(t.Context(), maker, sim.SoakConfig{Algorithm: "shy", From: 1, To: 20})
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations != r.Schedules {
		t.Errorf("%d of %d schedules of an algorithm that never leads break a rule, want all", r.Violations, r.Schedules)
	}
}
