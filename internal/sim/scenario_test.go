package sim_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/electiontest"
)

var update = flag.Bool("update", false, "write the traces that scenarios give into their files")

// maker has every algorithm of the library; quorum/simtest has the quorum.
func maker(algorithm, probe string) (func() election.Algorithm, error) {
	p := map[string]bully.Probe{"": bully.Descending, "descending": bully.Descending, "all": bully.All}
	switch _, ok := p[probe]; {
	case algorithm == "ring":
		return func() election.Algorithm { return ring.New() }, nil
	case algorithm == "chang-roberts":
		return func() election.Algorithm { return ring.NewChangRoberts() }, nil
	case algorithm == "bully" && ok:
		return func() election.Algorithm { return bully.New(bully.WithProbe(p[probe])) }, nil
	}
	return nil, fmt.Errorf("no algorithm %q with probe %q: there are the rings, and bully with descending or all", algorithm, probe)
}

func TestScenarios(t *testing.T) {
	electiontest.Scenarios(t, maker, "../../election/*/testdata/*.txt", *update)
}
