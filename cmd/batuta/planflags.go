package main

import (
	"github.com/spf13/pflag"

	runner "github.com/batuta-dev/batuta/internal/run"
	"github.com/batuta-dev/batuta/internal/schedule"
)

// planFlags say when "batuta run" runs its command.
type planFlags struct{ schedule, missed string }

func (f *planFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.schedule, "schedule", "", "`cron` fields at whose ticks the command runs, in UTC: '*/5 * * * *', or 'CRON_TZ=Europe/Madrid 30 4 * * *' (default: it runs for as long as this member leads)")
	fs.StringVar(&f.missed, "missed", "run", "`what` to do about a tick that fell due while nobody led or a run lasted: run it once, late, or skip it")
}

// plan is what they say, of a member with those flags; nil: there is no schedule.
func (f *planFlags) plan(of *agentFlags, restart bool) (*runner.Plan, error) {
	switch {
	case f.missed != "run" && f.missed != "skip":
		return nil, usagef("--missed %q: use run or skip", f.missed)
	case f.schedule == "":
		return nil, nil
	case restart:
		return nil, usagef("--restart does not go with --schedule, which starts the command again: leave one out")
	case of.wire.name != "batuta":
		return nil, usagef("--schedule does not go with --wire %s, by which members cannot tell each other of ticks", of.wire.name)
	}
	ticks, err := schedule.Parse(f.schedule)
	if err != nil {
		return nil, usagef("--schedule %w", err)
	}
	p := &runner.Plan{Schedule: ticks, SkipMissed: f.missed == "skip", Meta: of.membership.meta}
	if err := p.Check(); err != nil {
		return nil, usagef("--schedule: beside what --meta has, a member tells of its last tick: %w", err)
	}
	return p, nil
}
