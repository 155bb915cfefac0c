package main

import (
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/jobs"
	runner "github.com/batuta-dev/batuta/internal/command/run"
	"github.com/batuta-dev/batuta/internal/command/schedule"
)

// planFlags are when "batuta run" runs its command.
type planFlags struct{ schedule, missed string }

func (f *planFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.schedule, "schedule", "", "run the command at each time of `CRON`, in UTC: '*/5 * * * *', or 'CRON_TZ=Europe/Madrid 30 4 * * *' (default: run it for as long as this member leads)")
	fs.StringVar(&f.missed, "missed", "run", "if a run fell due without a leader, or during a run, apply `POLICY` run (once, late) or skip")
}

// plan returns their plan, for a member with those flags; nil: there is no schedule.
func (f *planFlags) plan(of *agentFlags, restart bool) (*runner.Plan, error) {
	skips, err := f.skips()
	switch {
	case err != nil:
		return nil, err
	case f.schedule == "":
		return nil, nil
	case restart:
		return nil, cli.Usagef("--restart does not go with --schedule, which starts the command again: leave one out")
	case of.wire.name != "batuta":
		return nil, cli.Usagef("--schedule does not go with --wire %s, which cannot carry scheduled times", of.wire.name)
	}
	ticks, err := schedule.Parse(f.schedule)
	if err != nil {
		return nil, cli.Usagef("--schedule %w", err)
	}
	p := &runner.Plan{Schedule: ticks, SkipMissed: skips, Meta: of.membership.meta}
	if err := p.Check(); err != nil {
		return nil, cli.Usagef("--schedule: besides --meta, a member publishes its last scheduled time: %w", err)
	}
	return p, nil
}

// skips reports whether missed ticks are left out.
func (f *planFlags) skips() (bool, error) {
	skips, err := jobs.SkipMissed(f.missed)
	if err != nil {
		return false, cli.Usagef("--missed %q: %w", f.missed, err)
	}
	return skips, nil
}
