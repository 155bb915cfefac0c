package ring_test

import (
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// Where not everyone reaches everyone, but each two have a member between them.
func TestGraphs(t *testing.T) {
	for _, setup := range []string{"algorithm ring", "algorithm ring\npreempt off", "algorithm chang-roberts", "algorithm chang-roberts\npreempt off"} {
		t.Run(setup, func(t *testing.T) {
			electiontest.Graphs(t, maker, 4, 1, setup)
			electiontest.Graphs(t, maker, 5, fulltest.Size(8, 1), setup)
		})
	}
}
