package main

import (
	"slices"
	"strings"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/bully"
)

// newAlgorithm makes the algorithm that --algorithm and --probe name.
func newAlgorithm(name, probe string) (batuta.Algorithm, error) {
	if !slices.Contains(algorithmNames(), name) {
		return nil, usagef("--algorithm %q: use %s", name, strings.Join(algorithmNames(), " or "))
	}
	switch probe {
	case "descending":
		return bully.New(bully.WithProbe(bully.Descending)), nil
	case "all":
		return bully.New(bully.WithProbe(bully.All)), nil
	}
	return nil, usagef("--probe %q: use all or descending", probe)
}

// algorithmNames are the values of --algorithm.
func algorithmNames() []string { return []string{"bully"} }
