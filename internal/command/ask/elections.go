package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/joblist"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/work/jobs"
	"github.com/spf13/cobra"
)

func newElectionsCommand(e cli.Env) *cobra.Command {
	return New(e, &cobra.Command{
		Use:   "elections",
		Short: "List named elections",
		Long: `elections lists the named elections of the cluster, as the agent asked sees them: those
that have a candidate (batuta run --election, or a service's node.Election). Each
has a leader of its own, marked "(asked)" where that is the member asked; the cluster's own
election is not among them.`,
		Example: `  batuta elections --agent 127.0.0.1:7501
  batuta elections --json | jq -r '.[] | select(.leader == "2") | .name'`,
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		return Get(ctx, a, c, "/v1/elections", func(list []api.NamedElection) error {
			if len(list) == 0 {
				fmt.Fprintln(a.Stderr, "no named elections; batuta run --election NAME and batuta lock NAME begin one")
				return nil
			}
			var s api.Status
			if err := c.Get(ctx, "/v1/status", &s); err != nil {
				return err
			}
			return a.printElections(list, s.ID)
		})
	})
}

// printElections prints a list of elections, as the member asked sees them.
func (a *Command) printElections(list []api.NamedElection, asked string) error {
	out := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "ELECTION\tSEAT\tLEADER\tEPOCH\tADDRESS\tSINCE")
	for _, e := range list {
		since := "-"
		if !e.Since.IsZero() {
			since = a.ago(e.Since.Time)
		}
		leader := "-"
		if e.Leader != nil {
			leader = *e.Leader
			if leader == asked {
				leader += " (asked)"
			}
		} else if e.Stopping != "" {
			leader = "- (" + e.Stopping + " stops)"
		}
		fmt.Fprintf(out, "%s\t%d\t%s\t%d\t%s\t%s\n", e.Name, e.Seat, leader, e.Epoch, cmp.Or(e.Address, "-"), since)
	}
	return out.Flush()
}

func newTransferCommand(e cli.Env) *cobra.Command {
	var name string
	cmd := New(e, &cobra.Command{
		Use:   "transfer ID",
		Short: "Hand leadership to a member",
		Long: `transfer hands leadership over to one member: the leader's work is stopped first, and the
command ends when that member leads. It is refused if the member is down, is not a candidate, or
would lose leadership again to a member that outranks it. With --no-preempt on all members each
of them keeps leadership once it has it.

Any agent may be asked: it passes this on to the leader. With --election NAME (batuta
elections) a named election is handed over. Exit code 3 when no leader is known, 5 for an
unknown election or member. An answer that is lost on its way, or comes too late, is exit
code 1: see which member leads before you ask again.`,
		Example: `  batuta transfer 2 --agent 127.0.0.1:7501
  batuta transfer 2 --election shard-17 --agent 127.0.0.1:7501`,
		Args: cli.Exactly("ID", "4"),
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		id := a.args[0]
		if _, err := election.ParseID(id); err != nil {
			return cli.Usagef("%w", err)
		}
		if err := cli.CheckElection(name); err != nil {
			return err
		}
		lists := "batuta members lists them"
		if name != "" {
			lists = "batuta elections lists the elections, batuta members the members"
		}
		return missing(act(ctx, a, c, "POST", "/v1/transfer", api.Heir{ID: id, Election: name}, func(any) string {
			if name != "" {
				return id + " leads " + name
			}
			var l api.Leader
			if err := c.Get(ctx, "/v1/leader", &l); err != nil {
				return "handed leadership to " + id // and that has ended since
			}
			return fmt.Sprintf("handed leadership to %s, epoch %d", l.Leader, l.Epoch)
		}), lists)
	})
	electionFlag(cmd, &name)
	return cmd
}

func newDrainCommand(e cli.Env) *cobra.Command {
	var force bool
	var wait time.Duration
	cmd := New(e, &cobra.Command{
		Use:   "drain ID",
		Short: "Move named elections off a member",
		Long: `drain moves the named elections away from a member, each when its work there has stopped,
and keeps them away until batuta undrain. The command ends when that member leads none; after
--wait it prints which it still leads, and ends with exit code 1: they are handed over when
their work has stopped. Any agent may be asked.

If that member leads the cluster itself, it resigns then, as by batuta resign, and another
leads. Where no other member could, it still leads the cluster, which the command reports.
It remains a candidate for the cluster, and may lead it again later.

It is refused when one of them has no other candidate. With --force those are given up,
too, and no member leads them.`,
		Example: `  batuta drain 3 --agent 127.0.0.1:7501 && ssh host3 reboot
  batuta undrain 3 --agent 127.0.0.1:7501`,
		Args: cli.Exactly("ID", "4"),
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		id := a.args[0]
		if _, err := election.ParseID(id); err != nil {
			return cli.Usagef("%w", err)
		}
		if wait < 0 {
			return cli.Usagef("--wait %v is negative: give 0s not to wait", wait)
		}
		var done api.Drained
		if err := c.Call(ctx, "POST", "/v1/drain", api.Drain{ID: id, Force: force}, &done); err != nil {
			return missing(err, "batuta members lists them")
		}
		state := "draining " + id
		switch {
		case wait > 0:
			if err := a.awaitDrained(ctx, c, id, wait); err != nil {
				return err
			}
			var err error
			if done, state, err = handedOn(ctx, c, id); err != nil {
				return err
			}
		case done.StillLeads != "":
			state += "; it still leads the cluster: batuta resign has another lead it"
		}
		return a.report(done, state)
	})
	cmd.Flags().BoolVar(&force, "force", false, "also give up elections that have no other candidate; no member leads them then")
	cmd.Flags().DurationVar(&wait, "wait", time.Minute, "wait for up to `DURATION` until that member leads none; 0s: do not wait")
	return cmd
}

// drainedEvery is the time between two looks at what a drained member still leads.
const drainedEvery = 100 * time.Millisecond

// awaitDrained waits until that member leads no named election, as the agent asked sees it.
func (a *Command) awaitDrained(ctx context.Context, c *api.Client, id string, wait time.Duration) error {
	over := time.After(wait)
	look := time.NewTicker(drainedEvery)
	defer look.Stop()
	for {
		var list []api.NamedElection
		if err := c.Get(ctx, "/v1/elections", &list); err != nil {
			return err
		}
		var left []string
		for _, e := range list {
			if e.Leader != nil && *e.Leader == id || e.Stopping == id {
				left = append(left, e.Name)
			}
		}
		if len(left) == 0 {
			return nil
		}
		select {
		case <-look.C:
		case <-over:
			return fmt.Errorf("%s is drained, but after %v still leads %d elections, as their work has not stopped: %s", id, wait, len(left), some(left))
		case <-ctx.Done():
			return fmt.Errorf("interrupted: %s is drained, and still leads %d elections: %s", id, len(left), some(left))
		}
	}
}

// handedOn has a drained member resign from the cluster's own election, if a second member is a candidate. It returns
// what the member still leads, and the new state.
func handedOn(ctx context.Context, c *api.Client, id string) (done api.Drained, state string, err error) {
	done.ID, state = id, "drained "+id+"; it leads nothing"
	var now api.Status
	if err := c.Get(ctx, "/v1/status", &now); err != nil {
		return done, "", err
	}
	if now.Leader == nil || *now.Leader != id {
		return done, state, nil
	}
	if !slices.ContainsFunc(now.Members, func(m api.Member) bool {
		return m.ID != id && m.State == string(batuta.StateUp) && (m.Standing == string(batuta.StandingEligible) || m.Standing == string(batuta.StandingResigned))
	}) {
		done.StillLeads = now.Election
		return done, "drained " + id + "; it still leads the cluster, for no other member could", nil
	}
	err = c.Call(ctx, "POST", "/v1/resign", api.Leaver{ID: id}, nil)
	if answer, ok := errors.AsType[*api.AnswerError](err); ok && answer.Code == http.StatusConflict {
		return done, state, nil // it lost leadership
	}
	if err != nil {
		return done, "", err
	}
	after := next(ctx, c, now.Epoch)
	if strings.HasPrefix(after, id+" ") {
		done.StillLeads, state = now.Election, "drained "+id+"; it still leads the cluster, for no other member has taken over"
		return done, state, nil
	}
	return done, state + "; " + after, nil
}

// some are the first names of a list.
func some(names []string) string {
	if len(names) > 5 {
		return strings.Join(names[:5], ", ") + " and others"
	}
	return strings.Join(names, ", ")
}

func newUndrainCommand(e cli.Env) *cobra.Command {
	return New(e, &cobra.Command{
		Use:     "undrain ID",
		Short:   "Let a drained member lead named elections again",
		Long:    "undrain ends what batuta drain has begun: the member gets its share of the named elections again.",
		Example: "  batuta undrain 3 --agent 127.0.0.1:7501",
		Args:    cli.Exactly("ID", "4"),
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		if _, err := election.ParseID(a.args[0]); err != nil {
			return cli.Usagef("%w", err)
		}
		return missing(act(ctx, a, c, "POST", "/v1/undrain", api.Drain{ID: a.args[0]}, func(any) string {
			return "undrained " + a.args[0] + "; it may lead again"
		}), "batuta members lists them")
	})
}

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
paused. The command ends when that member has announced the run, just before its process starts.
batuta jobs has the result. A run is refused while the job runs.`, "runs"},
		{"pause", "Start no run of a job at its scheduled times", `pause has the scheduled times of a job start no run until batuta jobs resume. They are neither
made up for nor counted as missed. A run that is under way goes on. The members that have the job in
their file keep the pause; it ends when all of them have stopped.`, "is paused"},
		{"resume", "End the pause of a job", "resume ends what batuta jobs pause has begun. The next run is at the next scheduled time.", "is resumed"},
	} {
		cmd.AddCommand(New(e, &cobra.Command{
			Use: do.name + " NAME", Short: do.short, Args: cli.Exactly("NAME", "report"),
			Long: do.long + `

Any agent may be asked: the member that leads the job does it. While no member leads the job, a
pause is kept for the next leader, and a run is refused with exit code 3. Exit code 5 for an unknown
job.`,
			Example: "  batuta jobs " + do.name + " report --agent 127.0.0.1:7501",
		}, func(ctx context.Context, a *Command, c *api.Client) error {
			if err := cli.CheckName(a.args[0]); err != nil {
				return err
			}
			return act(ctx, a, c, "POST", "/v1/jobs/"+url.PathEscape(a.args[0])+"/"+do.name, nil, func(j joblist.Job) string {
				if do.name == "run" && j.Leader != nil { // the last run may be the one before
					return j.Name + " " + do.done + " on " + *j.Leader
				}
				return j.Name + " " + do.done
			})
		}))
	}
	return cmd
}
