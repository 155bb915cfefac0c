package main

import (
	"slices"
	"strings"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/bully"
	"github.com/batuta-dev/batuta/ring"
)

// algorithmNames are the values of --algorithm.
func algorithmNames() []string { return []string{"bully", "ring", "chang-roberts"} }

// newAlgorithm makes the algorithm that --algorithm and --probe name.
func newAlgorithm(name, probe string) (batuta.Algorithm, error) {
	if !slices.Contains([]string{"descending", "all"}, probe) {
		return nil, usagef("--probe %q: use all or descending", probe)
	}
	switch name {
	case "bully":
		if probe == "all" {
			return bully.New(bully.WithProbe(bully.All)), nil
		}
		return bully.New(bully.WithProbe(bully.Descending)), nil
	case "ring":
		return ring.New(), nil
	case "chang-roberts":
		return ring.NewChangRoberts(), nil
	}
	return nil, usagef("--algorithm %q: use one of %s", name, strings.Join(algorithmNames(), ", "))
}
