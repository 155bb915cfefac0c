package sim_test

import (
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// Where not everyone reaches everyone, but each two have a member between them.
func TestGraphs(t *testing.T) {
	for _, setup := range []string{"probe descending", "probe descending\npreempt off", "probe all", "probe all\npreempt off"} {
		t.Run(setup, func(t *testing.T) {
			electiontest.Graphs(t, maker, 4, 1, setup)
			electiontest.Graphs(t, maker, 5, fulltest.Size(8, 1), setup)
		})
	}
}

// An agree that a scenario asks for is demanded of every connected group, also of one
// that agreement is not promised to; settle is not.
func TestAgreeExemptsNobody(t *testing.T) {
	const chain = "members 1..4\nagree\ncut 4-3 4-2 3-1\n"
	for end, agrees := range map[string]bool{"agree": false, "settle but cuts": true} {
		s, err := scenario.Parse("chain", chain+end)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := sim.Play(s, maker, nil); (err == nil) != agrees {
			t.Errorf("%q in a chain whose highest does not lead: %v", end, err)
		}
	}
}
