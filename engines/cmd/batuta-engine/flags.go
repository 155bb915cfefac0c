package main

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

// candidateFlags are those of a candidate, named as batuta agent's are.
type candidateFlags struct {
	engine             engineFlags
	id, advertise      string
	lease, renew, stop time.Duration
	drift              float64
	http, httpTokens   string
	httpHosts          []string
	output             cli.Output
	hooks              cli.LeadHooks
}

func (f *candidateFlags) register(fs *pflag.FlagSet, events string) {
	f.engine.register(fs)
	fs.StringVar(&f.id, "id", "", "`ID` of this candidate, which no other process has (default a UUIDv4)")
	fs.StringVar(&f.advertise, "advertise", "", "`ADDRESS` to publish, such as that of a service")
	fs.DurationVar(&f.lease, "lease", engines.DefaultLease, "`DURATION` for which a renewal holds; if the leader dies, another leads after that")
	fs.DurationVar(&f.renew, "renew", 0, "`DURATION` between two renewals (default a sixth of --lease)")
	fs.DurationVar(&f.stop, "stop", 0, "`DURATION` that is left to the work when the engine does not answer (default a fifth of --lease)")
	fs.Float64Var(&f.drift, "clock-drift", engines.DefaultDrift, "`PART` by which the rates of two machines' clocks may differ")
	fs.StringVar(&f.http, "http", "127.0.0.1:7500", "`HOST:PORT` of the HTTP API, unix:PATH, or off; if the default port is taken, any free one")
	cli.ListVar(fs, &f.httpHosts, "http-host", "`NAME` under which the API may be asked, besides localhost and IP addresses; repeatable")
	fs.StringVar(&f.httpTokens, "http-token-file", "", "`FILE` with the tokens that the API asks for")
	f.output.Register(fs, events)
	f.hooks.Register(fs, "candidate")
}

// check finds what is wrong with the flags that no other check covers.
func (f *candidateFlags) check() error { return cmp.Or(f.output.Check(), f.hooks.Check()) }

func (f *candidateFlags) config(log *slog.Logger) engines.Config {
	if f.id == "" {
		f.id = uuid.NewString()
	}
	return engines.Config{ID: election.ID(f.id), Election: f.engine.election, Address: f.advertise, Lease: f.lease, Renew: f.renew, Stop: f.stop, Drift: f.drift, Logger: log}
}
