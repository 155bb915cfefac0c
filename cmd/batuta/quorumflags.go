package main

import (
	"cmp"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/command/algorithm"
	"github.com/batuta-dev/batuta/internal/command/cli"
	runner "github.com/batuta-dev/batuta/internal/command/run"
	"github.com/batuta-dev/batuta/internal/core/attest"
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
	fs.StringVar(&q.takeover, "takeover", string(quorum.TakeoverAttested), "replace a dead leader by `POLICY`: attested, once its guard attests that it is dead and its work gone; lease, once its lease has ended; refused, once its address refuses connections, unsafe behind filters: no firewall, proxy or other machine may do that in its place [quorum]")
}

// check returns what is wrong with them.
func (q *quorumFlags) check() error {
	if !slices.Contains(quorum.Takeovers(), q.takeover) {
		return cli.Usagef("--takeover %q: use one of %s", q.takeover, strings.Join(quorum.Takeovers(), ", "))
	}
	if !(q.drift >= 0 && q.drift <= 0.5) {
		return cli.Usagef("--clock-drift %v: give a part of 0 to 0.5, such as 0.01", q.drift)
	}
	return nil
}

// ownFlags are the flags that a single algorithm reads.
var ownFlags = map[string]string{"probe": "bully", "takeover": "quorum", "clock-drift": "quorum"}

// guardBy has a guard attest the end of this process, if the takeover is attested: that of the
// command, or where there is none a guard of its own, which the caller must end. What hooks and
// named elections have begun may outlive both, so that nothing is attested then.
func (a *agentRun) guardBy(of batuta.Algorithm) (end func(), err error) {
	q, ok := of.(*quorum.Algorithm)
	end = func() {}
	if err := checkThreads(); err != nil {
		return end, err
	}
	if !ok || q.Takeover() != quorum.TakeoverAttested || a.flags.membership.observer {
		return end, nil
	}
	switch {
	case a.flags.hooks.Config(nil).Any():
		a.guard = unguarded{why: "what its hooks have begun may outlive it"}
	case a.guard == nil && a.job != nil:
		a.guard = unguarded{why: "the commands of named elections may outlive it"}
	case a.guard == nil:
		self, err := os.Executable()
		if err != nil {
			return end, err
		}
		if s, err := runner.NewSentry(self, guardLine(), a.log); err == nil {
			a.guard, end = s, s.Close
		} else {
			a.guard = unguarded{"its guard could not be started: " + err.Error(), a.log}
		}
	}
	quorum.WithGuard(a.guard)(q)
	return end, nil
}

// unguarded is why nothing attests the end of this process.
type unguarded struct {
	why string
	log *slog.Logger // for what is a fault; nil: it is none
}

// Swear implements [attest.Guard].
func (u unguarded) Swear(attest.Oath) {
	if u.log != nil {
		u.log.Warn("no guard attests the end of this process: should it die, the next leader comes when the lease has ended", "why", u.why)
	}
}

// Bars implements [attest.Guard].
func (u unguarded) Bars() string { return u.why }

// unread refuses a flag of a different algorithm, which would have no effect. A file may hold
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

// newAlgorithm makes the algorithm that --algorithm and --probe name.
func newAlgorithm(name, probe string) (batuta.Algorithm, error) {
	a, err := algorithm.New(name, probe)
	if err != nil {
		return nil, cli.Usagef("--%w", err)
	}
	return a, nil
}
