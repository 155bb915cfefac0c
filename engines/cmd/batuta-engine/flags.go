package main

import (
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/internal/hooks"
)

// candidateFlags are those of a candidate, named as batuta agent's are.
type candidateFlags struct {
	engine                      engineFlags
	id, advertise               string
	lease, renew, stop          time.Duration
	drift                       float64
	http, httpTokens            string
	httpHosts                   []string
	events, logLevel, logFormat string
	onLead, onLose, onChange    string
	hookTimeout                 time.Duration
}

func (f *candidateFlags) register(fs *pflag.FlagSet, events string) {
	f.engine.register(fs)
	fs.StringVar(&f.id, "id", "", "this candidate's `id`, no other process's (default a UUIDv4)")
	fs.StringVar(&f.advertise, "advertise", "", "an `address` that the others are told, such as that of a service")
	fs.DurationVar(&f.lease, "lease", engines.DefaultLease, "`time` for which a renewal holds, and after which another leads when the leader is gone")
	fs.DurationVar(&f.renew, "renew", 0, "`time` between two renewals (default a sixth of --lease)")
	fs.DurationVar(&f.stop, "stop", 0, "`time` that is left to the work when the engine does not answer (default a fifth of --lease)")
	fs.Float64Var(&f.drift, "clock-drift", engines.DefaultDrift, "`part` by which the rates of two machines' clocks may differ")
	fs.StringVar(&f.http, "http", "127.0.0.1:7500", "`host:port` of the HTTP API, unix:PATH, or off; where it is not given and the default is taken, any free port")
	fs.StringSliceVar(&f.httpHosts, "http-host", nil, "`name` under which the API may be asked, beside localhost and IP addresses; repeatable")
	fs.StringVar(&f.httpTokens, "http-token-file", "", "`file` with the tokens that the API asks for")
	fs.StringVar(&f.events, "events", events, "`form` of events on standard output: json, text or off")
	fs.StringVar(&f.logLevel, "log-level", "info", "`level`: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "text", "`form` of logs on standard error: text or json")
	fs.StringVar(&f.onLead, "on-lead", "", "`command` to run when this candidate begins to lead; no shell reads it, BATUTA_ variables tell what happened")
	fs.StringVar(&f.onLose, "on-lose", "", "`command` to run when it leads no more, before another may, and at the start")
	fs.StringVar(&f.onChange, "on-change", "", "`command` to run when any leadership begins or ends")
	fs.DurationVar(&f.hookTimeout, "hook-timeout", 10*time.Second, "`time` after which a hook is killed, with its process group")
}

// check finds what is wrong with the flags that nobody else looks at.
func (f *candidateFlags) check() error {
	if !slices.Contains([]string{"json", "text", "off"}, f.events) {
		return usagef("--events %q: use json, text or off", f.events)
	}
	if !slices.Contains([]string{"json", "text"}, f.logFormat) {
		return usagef("--log-format %q: use text or json", f.logFormat)
	}
	if f.hookTimeout <= 0 {
		return usagef("--hook-timeout %v: give a time above zero, such as 10s", f.hookTimeout)
	}
	for _, h := range []struct{ flag, line string }{{"--on-lead", f.onLead}, {"--on-lose", f.onLose}, {"--on-change", f.onChange}} {
		if _, err := hooks.Command(h.line); err != nil {
			return usagef("%s %q: %w", h.flag, h.line, err)
		}
	}
	return nil
}

func (f *candidateFlags) level() (level slog.Level, err error) {
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return level, usagef("--log-level %q: use debug, info, warn or error", f.logLevel)
	}
	return level, nil
}

func (f *candidateFlags) config(log *slog.Logger) engines.Config {
	if f.id == "" {
		f.id = uuid.NewString()
	}
	return engines.Config{ID: f.id, Election: f.engine.election, Address: f.advertise, Lease: f.lease, Renew: f.renew, Stop: f.stop, Drift: f.drift, Logger: log}
}

func (f *candidateFlags) hooks(log *slog.Logger) hooks.Config {
	words := func(line string) []string {
		argv, _ := hooks.Words(line) // check has found it good
		return argv
	}
	return hooks.Config{OnLead: words(f.onLead), OnLose: words(f.onLose), OnChange: words(f.onChange), Timeout: f.hookTimeout, Logger: log}
}
