package simtest_test

import (
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// TestSoakTelling: members of a quorum publish now this and now that.
func TestSoakTelling(t *testing.T) {
	electiontest.Soak(t, anyMaker, sim.SoakConfig{Algorithm: "quorum", From: 1, To: fulltest.Size[uint64](150, 400),
		Faults: append(sim.SoakFaults(), sim.TellingFaults()...)})
}

// TestSoakHandovers: leaderships of a quorum end while their work stops slowly.
func TestSoakHandovers(t *testing.T) {
	electiontest.Soak(t, anyMaker, sim.SoakConfig{Algorithm: "quorum", From: 1, To: fulltest.Size[uint64](40, 1000),
		Draws: []draw.Kind{draw.Handovers}})
}

// TestSoakSuccessions: guards attest the end of a quorum's leaders, and second processes claim the ids
// of its members.
func TestSoakSuccessions(t *testing.T) {
	electiontest.Soak(t, anyMaker, sim.SoakConfig{Algorithm: "quorum", From: 1, To: fulltest.Size[uint64](100, 1000),
		Faults: append(sim.SoakFaults(), sim.MembershipFaults()...), Draws: []draw.Kind{draw.Attested, draw.Claimants}})
}

// TestSoakChanges: members of a quorum change within milliseconds, and restart with other times.
func TestSoakChanges(t *testing.T) {
	electiontest.Soak(t, anyMaker, sim.SoakConfig{Algorithm: "quorum", From: 1, To: fulltest.Size[uint64](60, 2000),
		Faults: append(sim.SoakFaults(), sim.MembershipFaults()...), Draws: []draw.Kind{draw.Churn, draw.Retimes}})
}
