package ring_test

import (
	"flag"
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
)

var update = flag.Bool("update", false, "write the traces that scenarios give into their files")

func TestScenarios(t *testing.T) {
	electiontest.Scenarios(t, maker, "testdata/*/*.txt", *update)
}
