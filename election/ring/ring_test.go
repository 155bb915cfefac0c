package ring_test

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/ring"
)

// algorithms are the names of both.
var algorithms = []string{"ring", "chang-roberts"}

// maker knows both algorithms in the order of the ids.
func maker(algorithm, probe string) (func() election.Algorithm, error) {
	return inOrder(nil)(algorithm, probe)
}

// inOrder knows both algorithms on a ring of that order.
func inOrder(ids []election.ID) func(algorithm, probe string) (func() election.Algorithm, error) {
	return func(algorithm, _ string) (func() election.Algorithm, error) {
		var options []ring.Option
		if ids != nil {
			options = append(options, ring.WithOrder(ids))
		}
		switch algorithm {
		case "ring":
			return func() election.Algorithm { return ring.New(options...) }, nil
		case "chang-roberts":
			return func() election.Algorithm { return ring.NewChangRoberts(options...) }, nil
		}
		return nil, fmt.Errorf("no algorithm %q: there are %q", algorithm, algorithms)
	}
}
