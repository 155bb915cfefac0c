package main

import (
	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// newAlgorithm makes the algorithm that --algorithm and --probe name.
func newAlgorithm(name, probe string) (batuta.Algorithm, error) {
	a, err := algorithm.New(name, probe)
	if err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	return a, nil
}
