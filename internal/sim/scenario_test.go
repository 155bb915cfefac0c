package sim_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/electiontest"
)

var update = flag.Bool("update", false, "write the traces that scenarios give into their files")

// maker knows the algorithms that have scenarios.
func maker(algorithm, probe string) (func() election.Algorithm, error) {
	p := map[string]bully.Probe{"": bully.Descending, "descending": bully.Descending, "all": bully.All}
	if _, ok := p[probe]; algorithm != "bully" || !ok {
		return nil, fmt.Errorf("no algorithm %q with probe %q: there is bully, with descending or all", algorithm, probe)
	}
	return func() election.Algorithm { return bully.New(bully.WithProbe(p[probe])) }, nil
}

func TestScenarios(t *testing.T) {
	electiontest.Scenarios(t, maker, "../../election/*/testdata/*.txt", *update)
}
