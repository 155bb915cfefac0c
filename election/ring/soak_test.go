package ring_test

import (
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
)

// Random faults, then peace: everyone agrees, and no rule is broken on the way.
func TestSoak(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			electiontest.Soak(t, maker, sim.SoakConfig{Algorithm: algorithm, From: 1, To: 600})
		})
	}
}
