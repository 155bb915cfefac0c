package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/discovery"
)

// memberFlags are how a member joins, whether it may lead, and how it leaves.
type memberFlags struct {
	join            []string
	bootstrap       bool
	expect          int
	minMembers      int
	reapAfter       time.Duration
	observer, leave bool
	witness         bool // it is "batuta witness", and has no flag
	awaitReady      bool
	check           checkFlags
	meta            metaFlag
}

func (f *memberFlags) register(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.join, "join", nil, "`HOST:PORT` of any member to join through, srv:NAME or file:PATH; a name means all its addresses; repeatable")
	fs.BoolVar(&f.bootstrap, "bootstrap", false, "create the cluster if there is none: on one member, once; the others, with --join and no --member, then create none")
	fs.IntVar(&f.expect, "expect", 0, "wait for `N` connected members before the first of all elections")
	fs.IntVar(&f.minMembers, "min-members", 0, "lead only while receiving `N` members, this one included (not with quorum)")
	fs.DurationVar(&f.reapAfter, "reap-after", 0, "`DURATION` after which the leader removes a member that is away; 0 removes none")
	fs.BoolVar(&f.observer, "observer", false, "follow, and never lead")
	fs.BoolVar(&f.leave, "leave", false, "on SIGTERM or SIGINT leave the cluster, until joining again")
	fs.BoolVar(&f.awaitReady, "await-ready", false, "lead as ready only once the command sends READY=1 to NOTIFY_SOCKET, or --on-lead succeeds")
	fs.Var(&f.meta, "meta", "`KEY=VALUE` that this member publishes, such as url=http://10.0.0.5:8080; repeatable")
	f.check.register(fs)
}

func (f *memberFlags) validate() error {
	for _, source := range f.join {
		if err := discovery.Check(source); err != nil {
			return cli.Usagef("--join %q is not HOST:PORT, srv:NAME or file:PATH: %w", source, err)
		}
	}
	if err := election.CheckMeta(f.meta); err != nil {
		return cli.Usagef("--meta: %w", err)
	}
	return f.check.validate()
}

// apply is for flags that validate has found good.
func (f *memberFlags) apply(c *batuta.Config) {
	c.Join, c.Observer, c.Witness, c.Bootstrap, c.Expect = f.join, f.observer, f.witness, f.bootstrap, f.expect
	c.MinMembers, c.Meta, c.ReapAfter, c.AwaitReady = f.minMembers, f.meta, f.reapAfter, f.awaitReady
	c.Health, c.LeadUnhealthy = f.check.health(), f.check.leadUnhealthy
}

// metaFlag is --meta KEY=VALUE, as often as there are pairs. A variable has several
// between spaces; a value with a space in it stands in the file or on the command line.
type metaFlag map[string]string

// String implements [pflag.Value].
func (f *metaFlag) String() string { return api.Pairs(*f) }

// Type implements [pflag.Value].
func (f *metaFlag) Type() string { return "key=value" }

// Set implements [pflag.Value].
func (f *metaFlag) Set(pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if _, twice := (*f)[key]; !ok {
		return fmt.Errorf("write KEY=VALUE, such as url=http://10.0.0.5:8080")
	} else if twice {
		return fmt.Errorf("key %q stands twice: keep one", election.Shown(key))
	}
	if *f == nil {
		*f = metaFlag{}
	}
	(*f)[key] = value
	return nil
}

// Append implements [pflag.SliceValue].
func (f *metaFlag) Append(pair string) error { return f.Set(pair) }

// Replace implements [pflag.SliceValue].
func (f *metaFlag) Replace(pairs []string) error {
	fresh := metaFlag{}
	for _, pair := range pairs {
		if err := fresh.Set(pair); err != nil {
			return err
		}
	}
	*f = fresh
	return nil
}

// GetSlice implements [pflag.SliceValue].
func (f *metaFlag) GetSlice() []string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(*f)) {
		pairs = append(pairs, key+"="+(*f)[key])
	}
	return pairs
}
