// Package algorithm finds the algorithms that batuta brings by their names.
package algorithm

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
)

// Names are those that [New] knows, the default first.
func Names() []string { return []string{"bully", "ring", "chang-roberts", "quorum"} }

// Usage is the help of a flag that names one.
func Usage() string { return "elect by algorithm `NAME`: " + strings.Join(Names(), ", ") }

// Probes are Bully's ways of asking, the default first.
func Probes() []string { return []string{"descending", "all"} }

// New makes a member's algorithm. An empty probe is the default.
func New(name, probe string) (election.Algorithm, error) {
	if name == "quorum" {
		if slices.Contains(Probes(), probe) {
			probe = "" // the flag of a different algorithm
		}
		return newQuorum(probe)
	}
	if probe != "" && !slices.Contains(Probes(), probe) {
		return nil, fmt.Errorf("probe %q: use all or descending", probe)
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
	return nil, fmt.Errorf("algorithm %q: use one of %s", name, strings.Join(Names(), ", "))
}

// Maker finds them for the lab; it is a scenario.Maker.
func Maker(name, probe string) (func() election.Algorithm, error) {
	if _, err := New(name, probe); err != nil {
		return nil, err
	}
	return func() election.Algorithm {
		a, _ := New(name, probe) // it was found a moment ago
		return a
	}, nil
}
