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
	fs.StringVar(&f.id, "id", "", "this candidate's `id`, no other process's (default a UUIDv4)")
	fs.StringVar(&f.advertise, "advertise", "", "`address` to publish, such as that of a service")
	fs.DurationVar(&f.lease, "lease", engines.DefaultLease, "`time` for which a renewal holds, and after which another leads when the leader is gone")
	fs.DurationVar(&f.renew, "renew", 0, "`time` between two renewals (default a sixth of --lease)")
	fs.DurationVar(&f.stop, "stop", 0, "`time` that is left to the work when the engine does not answer (default a fifth of --lease)")
	fs.Float64Var(&f.drift, "clock-drift", engines.DefaultDrift, "`part` by which the rates of two machines' clocks may differ")
	fs.StringVar(&f.http, "http", "127.0.0.1:7500", "`host:port` of the HTTP API, unix:PATH, or off; where it is not given and the default is taken, any free port")
	fs.StringSliceVar(&f.httpHosts, "http-host", nil, "`name` under which the API may be asked, besides localhost and IP addresses; repeatable")
	fs.StringVar(&f.httpTokens, "http-token-file", "", "`file` with the tokens that the API asks for")
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
