package quorum_test

import (
	"errors"
	"flag"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/quorum"
)

func init() { fulltest.MostlyComputes() }

var update = flag.Bool("update", false, "write the traces of the scenarios anew")

func maker(algorithm, takeover string) (func() election.Algorithm, error) {
	if algorithm != "quorum" {
		return nil, errors.New("no such algorithm")
	}
	if takeover == "" {
		takeover = string(quorum.TakeoverLease)
	}
	return func() election.Algorithm { return quorum.New(quorum.WithTakeover(quorum.Takeover(takeover))) }, nil
}

func TestScenarios(t *testing.T) {
	electiontest.Scenarios(t, maker, "testdata/*.txt", *update)
}

// A guard may attest the end of its leader, or not, late and twice.
func TestSoakAttested(t *testing.T) {
	electiontest.Soak(t, maker, sim.SoakConfig{Algorithm: "quorum", Option: "attested", From: 1, To: fulltest.Size[uint64](300, 5000)})
}

func TestSoak(t *testing.T) {
	electiontest.Soak(t, maker, sim.SoakConfig{Algorithm: "quorum", From: 1, To: fulltest.Size[uint64](300, 5000)})
}
