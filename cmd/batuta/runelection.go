package main

import (
	"cmp"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/cli"
	runner "github.com/batuta-dev/batuta/internal/command/run"
	"github.com/batuta-dev/batuta/internal/core/named"
)

// runElection is the election of "batuta run".
type runElection struct {
	name          string
	weight, seats int
	prefer        bool
}

func (r *runElection) register(fs *pflag.FlagSet) {
	fs.IntVar(&r.weight, "weight", 1, "`N` by which elections are spread: what this one costs its leader [--election]")
	fs.BoolVar(&r.prefer, "prefer", false, "lead the election whenever this member may [--election]")
	fs.IntVar(&r.seats, "seats", 1, "`N` members lead the election at once, each under a token of its own [--election]")
	fs.StringVar(&r.name, "election", "", "`NAME` of a named election: run the command while this member leads that (default the cluster's own)")
}

func (r *runElection) check(f *agentFlags) error {
	if r.name == ownElection {
		r.name = ""
	}
	switch {
	case r.name == "" && r.weight != 1:
		return cli.Usagef("--weight %d goes with --election NAME: add that, or leave it out", r.weight)
	case r.name == "" && r.seats != 1:
		return cli.Usagef("--seats %d goes with --election NAME: add that, or leave it out", r.seats)
	case r.name == "" && r.prefer:
		return cli.Usagef("--prefer goes with --election NAME: add that, or leave it out; --priority is for the cluster's own")
	case r.name == "":
		return nil
	case r.weight < 1 || r.weight > named.MaxWeight:
		return cli.Usagef("--weight %d: give a number of 1 to %d", r.weight, named.MaxWeight)
	case r.seats < 1 || r.seats > named.MaxSeats:
		return cli.Usagef("--seats %d: give a number of 1 to %d", r.seats, named.MaxSeats)
	}
	return cmp.Or(manyElections("--election", f), cli.CheckElection(r.name))
}

// manyElections checks whether a member with those flags can be a candidate of what flag names.
func manyElections(flag string, f *agentFlags) error {
	switch {
	case f.wire.name != "batuta":
		return cli.Usagef("%s does not go with --wire %s, which has only the cluster's own election", flag, f.wire.name)
	case f.membership.observer:
		return cli.Usagef("%s does not go with --observer, which leads nothing: leave one out", flag)
	}
	return nil
}

// ownElection is the name of the cluster's own election.
const ownElection = "default"

// node is what the command runs on.
func (r *runElection) node(n *batuta.Node) runner.Node {
	if r == nil || r.name == "" {
		return n
	}
	how := []batuta.ElectionOption{batuta.Weight(r.weight), batuta.Seats(r.seats)}
	if r.prefer {
		how = append(how, batuta.Prefer())
	}
	return runner.Under(n, n.Election(r.name, how...))
}

// notice is the part of a lease that is left when the command is asked to end.
func (r *runElection) notice() int {
	if r == nil || r.name == "" {
		return 0
	}
	return runner.NamedNotice
}
