package main

import (
	"cmp"
	"slices"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/quorum"
)

// quorumFlags are the options of --algorithm quorum.
type quorumFlags struct {
	takeover string
	drift    float64
	flags    *pflag.FlagSet
}

func (q *quorumFlags) register(fs *pflag.FlagSet) {
	q.registerTakeover(fs)
	fs.Float64Var(&q.drift, "clock-drift", quorum.DefaultDrift, "`N`, the part by which the rates of two members' clocks may differ, 0 to 0.5 [quorum]")
}

func (q *quorumFlags) registerTakeover(fs *pflag.FlagSet) {
	q.flags = fs
	fs.StringVar(&q.takeover, "takeover", string(quorum.TakeoverLease), "replace a dead leader by `POLICY`: lease, once its lease has ended; refused, once its address refuses connections, which no firewall, proxy or other machine may do in its place [quorum]")
}

// check says what is wrong with them.
func (q *quorumFlags) check() error {
	if !slices.Contains([]string{string(quorum.TakeoverLease), string(quorum.TakeoverRefused)}, q.takeover) {
		return cli.Usagef("--takeover %q: use lease or refused", q.takeover)
	}
	if !(q.drift >= 0 && q.drift <= 0.5) {
		return cli.Usagef("--clock-drift %v: give a part of 0 to 0.5, such as 0.01", q.drift)
	}
	return nil
}

// ownFlags are the flags that one algorithm alone reads.
var ownFlags = map[string]string{"probe": "bully", "takeover": "quorum", "clock-drift": "quorum"}

// unread refuses a flag of another algorithm, which would have no effect. A file may hold
// its default, as "batuta config show" writes it.
func (q *quorumFlags) unread(algorithm string) error {
	var fault error
	q.flags.VisitAll(func(f *pflag.Flag) {
		of := ownFlags[f.Name]
		if of == "" || of == algorithm || !f.Changed || cli.SourceOf(f) == "file" && f.Value.String() == f.DefValue {
			return
		}
		fault = cmp.Or(fault, cli.Usagef("--%s needs --algorithm %s, and has no effect under %s: leave it out, or give that", f.Name, of, algorithm))
	})
	return fault
}

// newAlgorithm makes the algorithm that the flags name.
func (f *agentFlags) newAlgorithm() (batuta.Algorithm, error) {
	if f.algorithm != "quorum" {
		made, err := newAlgorithm(f.algorithm, f.probe)
		return made, cmp.Or(err, f.quorum.unread(f.algorithm))
	}
	if err := cmp.Or(f.quorum.unread(f.algorithm), f.quorum.check()); err != nil {
		return nil, err
	}
	if f.dataDir == "" {
		return nil, cli.Usagef("--algorithm quorum needs --data-dir: what a member has promised must outlive it; give each member a directory of its own")
	}
	return quorum.New(quorum.Drift(f.quorum.drift), quorum.WithTakeover(quorum.Takeover(f.quorum.takeover))), nil
}
