package sim_test

import (
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/sim"
)

func TestSoak(t *testing.T) {
	playSeeds(t, sim.SoakConfig{})
}

// TestSoakMembership: members come and go among all the other faults.
func TestSoakMembership(t *testing.T) {
	playSeeds(t, sim.SoakConfig{Faults: append(sim.SoakFaults(), sim.MembershipFaults()...)})
}

func playSeeds(t *testing.T, c sim.SoakConfig) {
	c.Algorithm, c.Probes, c.From, c.To = "bully", []string{"descending", "all"}, 1, 5000
	if raced && !testing.Short() { // which plays a tenth by itself
		c.To = 500
	}
	electiontest.Soak(t, maker, c)
}
