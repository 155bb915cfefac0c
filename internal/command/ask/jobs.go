package ask

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/jobs"
)

func newJobsCommand(e cli.Env) *cobra.Command {
	cmd := New(e, &cobra.Command{
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
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		return Get(ctx, a, c, "/v1/jobs", func(list []joblist.Job) error {
			if len(list) == 0 {
				fmt.Fprintln(a.Stderr, "no jobs; batuta run --jobs FILE runs some; the command of --schedule is not listed")
				return nil
			}
			return jobs.Show(a.Stdout, list, time.Now())
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
		cmd.AddCommand(New(e, &cobra.Command{
			Use: do.name + " NAME", Short: do.short, Args: cli.Exactly("NAME", "report"),
			Long: do.long + `

Any agent may be asked: the member that leads the job does it. While no member leads the job, a
pause is kept for the next leader, and a run is refused with exit code 3. Exit code 5 for an unknown
job.`,
			Example: "  batuta jobs " + do.name + " report --agent 127.0.0.1:7501",
		}, func(ctx context.Context, a *Command, c *api.Client) error {
			return act(ctx, a, c, "POST", "/v1/jobs/"+url.PathEscape(a.args[0])+"/"+do.name, nil, func(j joblist.Job) string {
				if do.name == "run" && j.By != nil {
					return j.Name + " " + do.done + " on " + *j.By
				}
				return j.Name + " " + do.done
			})
		}))
	}
	return cmd
}
