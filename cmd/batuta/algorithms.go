package main

import (
	"strings"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// algorithmUsage is the help of --algorithm.
var algorithmUsage = "elect by algorithm `NAME`: " + strings.Join(algorithm.Names(), ", ")

// newAlgorithm makes the algorithm that --algorithm and --probe name.
func newAlgorithm(name, probe string) (batuta.Algorithm, error) {
	a, err := algorithm.New(name, probe)
	if err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	return a, nil
}
