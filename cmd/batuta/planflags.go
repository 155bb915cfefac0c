package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/joblist"
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

func newJobsCommand(e env) *cobra.Command {
	cmd := newAskingCommand(e, &cobra.Command{
		Use:   "jobs",
		Short: "List scheduled jobs and their last runs",
		Long: `jobs lists the jobs of "batuta run --jobs FILE", as the agent asked sees them: the member that
runs each, its next scheduled time, and its last run with the member, the result, the exit code
and the duration. MISSED counts scheduled times for which no run began. Any agent may be asked.
The command of "batuta run --schedule" has no name and is not listed.

A run's result is running, ok, failed, timeout, stopped (its member no longer led the job), or
lost (its member ended before it reported the end).`,
		Example: `  batuta jobs --agent 127.0.0.1:7501
  batuta jobs --json | jq -r '.[] | select(.exit != 0) | .name'`,
	}, func(ctx context.Context, a *asking, c *api.Client) error {
		return get(ctx, a, c, "/v1/jobs", func(list []joblist.Job) error {
			if len(list) == 0 {
				fmt.Fprintln(a.stderr, "no jobs; batuta run --jobs FILE runs some; the command of --schedule is not listed")
				return nil
			}
			return jobs.Show(a.stdout, list, time.Now())
		})
	})
	for _, do := range []struct{ name, short, long, done string }{
		{"run", "Run a job now", `run has the member that leads the job run it now, whatever its schedule, also while it is
paused. The command ends when the run begins. It is refused while the job runs.`, "runs"},
		{"pause", "Start no run of a job at its scheduled times", `pause has the scheduled times of a job start no run until batuta jobs resume. They are neither
made up for nor counted as missed. A run that is under way goes on. The members that have the job in
their file keep the pause; it ends when all of them have stopped.`, "is paused"},
		{"resume", "End the pause of a job", "resume ends what batuta jobs pause has begun. The next run is at the next scheduled time.", "is not paused"},
	} {
		cmd.AddCommand(newAskingCommand(e, &cobra.Command{
			Use: do.name + " NAME", Short: do.short, Args: cli.Exactly("NAME", "report"),
			Long: do.long + `

Any agent may be asked: the member that leads the job does it. While no member leads the job, a
pause is kept for the next leader, and a run is refused with exit code 3. Exit code 5 for an unknown
job.`,
			Example: "  batuta jobs " + do.name + " report --agent 127.0.0.1:7501",
		}, func(ctx context.Context, a *asking, c *api.Client) error {
			var raw json.RawMessage
			if err := c.Post(ctx, "/v1/jobs/"+url.PathEscape(a.args[0])+"/"+do.name, &raw); err != nil {
				return err
			}
			var j joblist.Job
			if err := json.Unmarshal(raw, &j); err != nil || a.json {
				return a.report(raw, do.name)
			}
			done := j.Name + " " + do.done
			if do.name == "run" && j.By != nil {
				done += " on " + *j.By
			}
			return a.report(raw, done)
		}))
	}
	return cmd
}
