package main

import (
	"slices"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/cli"
	"github.com/batuta-dev/batuta/quorum"
)

// quorumFlags are the options of --algorithm quorum.
type quorumFlags struct {
	takeover string
	drift    float64
}

func (q *quorumFlags) register(fs *pflag.FlagSet) {
	q.registerTakeover(fs)
	fs.Float64Var(&q.drift, "clock-drift", quorum.DefaultDrift, "a quorum's `part` by which the rates of two members' clocks may differ")
}

func (q *quorumFlags) registerTakeover(fs *pflag.FlagSet) {
	fs.StringVar(&q.takeover, "takeover", string(quorum.TakeoverLease), "`when` a quorum replaces a leader that is gone: lease, once its lease has ended; refused, once its address refuses connections")
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

// newAlgorithm makes the algorithm that the flags name.
func (f *agentFlags) newAlgorithm() (batuta.Algorithm, error) {
	if f.algorithm != "quorum" {
		return newAlgorithm(f.algorithm, f.probe)
	}
	if err := f.quorum.check(); err != nil {
		return nil, err
	}
	if f.dataDir == "" {
		return nil, cli.Usagef("--algorithm quorum needs --data-dir: what a member has promised must outlive it; give each member a directory of its own")
	}
	return quorum.New(quorum.Drift(f.quorum.drift), quorum.WithTakeover(quorum.Takeover(f.quorum.takeover))), nil
}
