package main

import (
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
)

// memberFlags say how a member comes, whether it may lead, and how it goes.
type memberFlags struct {
	join            []string
	bootstrap       bool
	expect          int
	observer, leave bool
	check           checkFlags
}

func (f *memberFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.join, "join", nil, "`host:port` of any member to join through; of a name with several addresses, all; repeatable")
	fs.BoolVar(&f.bootstrap, "bootstrap", false, "found the cluster if there is none: for one member, once; with --join and no --member nobody else does")
	fs.IntVar(&f.expect, "expect", 0, "`number` of members that must know each other before the first of all elections")
	fs.BoolVar(&f.observer, "observer", false, "follow and never lead")
	fs.BoolVar(&f.leave, "leave", false, "on SIGTERM or SIGINT leave the cluster for good, until joining again")
	f.check.register(fs)
}

func (f *memberFlags) validate() error {
	for _, addr := range f.join {
		if err := checkAddress("--join", addr); err != nil {
			return err
		}
	}
	return f.check.validate()
}

// apply is for flags that validate has found good.
func (f *memberFlags) apply(c *batuta.Config) {
	c.Join, c.Observer, c.Bootstrap, c.Expect = f.join, f.observer, f.bootstrap, f.expect
	c.Healthy, c.LeadUnhealthy = f.check.healthy(), f.check.leadUnhealthy
}
