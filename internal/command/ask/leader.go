package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/spf13/cobra"
)

func newLeaderCommand(e cli.Env) *cobra.Command {
	var key, name string
	cmd := New(e, &cobra.Command{
		Use:   "leader",
		Short: "Print the leader's ID (exit code 3 if there is none)",
		Long: `leader prints the leader's id, or with --meta KEY what the leader publishes under
that key (see --meta of batuta agent). It ends with exit code 3 when no leader is
known, and with 1 when the leader publishes nothing under that key. With --election NAME it is
the leader of a named election; exit code 5 when there is none of that name.`,
		Example: `  batuta leader --agent 127.0.0.1:7501
  curl -fsS "$(batuta leader --meta url)/orders"
  batuta leader --election shard-17
  test "$(batuta leader --agent 127.0.0.1:7501)" = "$(hostname)" && echo here`,
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		if err := cli.CheckElection(name); err != nil {
			return err
		}
		path := "/v1/leader"
		if name != "" {
			path += "?election=" + url.QueryEscape(name)
		}
		var raw json.RawMessage
		if err := c.Get(ctx, path, &raw); err != nil {
			return missing(err, "batuta elections lists them")
		}
		var l api.Leader
		if err := json.Unmarshal(raw, &l); err != nil {
			return cli.Exit(cli.NoAgent, fmt.Errorf("agent %s: %s: answer is not batuta's: %w", a.http, path, err))
		}
		said, ok := l.Meta[key]
		switch {
		case key == "":
			said = l.Leader
		case !ok:
			return fmt.Errorf("leader %s publishes nothing under %q: start it with --meta %s=VALUE; it publishes %s", l.Leader, key, key, cmp.Or(api.Pairs(l.Meta), "nothing at all"))
		}
		return a.report(raw, said)
	})
	electionFlag(cmd, &name)
	cmd.Flags().StringVar(&key, "meta", "", "print what the leader publishes under `KEY`, instead of its ID")
	cli.ByHand(cmd.Flags(), "meta") // a member's --meta differs
	return cmd
}

func newResignCommand(e cli.Env) *cobra.Command {
	return New(e, &cobra.Command{
		Use:   "resign",
		Short: "Make the leader step down",
		Long: `resign makes the leader of the cluster's own election step down, after its work has stopped.
Any agent may be asked: it passes this on to the leader. The command prints which member
leads next. Exit code 3 when no leader is known.

An answer that is lost on its way, or comes too late, is exit code 1: the leader may have
resigned. See which member leads before you ask again.`,
		Example: "  batuta resign --agent 127.0.0.1:7501",
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		return act(ctx, a, c, "POST", "/v1/resign", nil, func(done struct{ Resigned string }) string {
			epoch, _, _ := strings.Cut(done.Resigned, ":")
			n, _ := strconv.ParseUint(epoch, 10, 64)
			return "resigned; " + next(ctx, c, n)
		})
	})
}

func newPauseCommand(e cli.Env) *cobra.Command {
	var length time.Duration
	cmd := New(e, &cobra.Command{
		Use:   "pause",
		Short: "Keep the leader during maintenance",
		Long: `pause keeps the cluster's own election with its leader: no other member takes over, whether
the leader is alive, fails its check or is stopped. The leader that returns leads again. Any agent
may be asked. All members report the pause, and it ends by itself after --for, or by batuta resume.

batuta resign and batuta transfer still move leadership. Exit code 3 when no leader is known.`,
		Example: `  batuta pause --for 30m --agent 127.0.0.1:7501
  batuta resume --agent 127.0.0.1:7502`,
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		if length <= 0 || length > election.MaxPause {
			return cli.Usagef("--for %v: give a duration above zero, at most %v", length, election.MaxPause)
		}
		return act(ctx, a, c, "POST", "/v1/pause", api.Break{For: length.String()}, func(done struct{ Paused *api.Paused }) string {
			if done.Paused == nil { // it is over by now
				return "paused"
			}
			return fmt.Sprintf("paused until %s; %s stays leader", done.Paused.Until.Format(time.RFC3339), done.Paused.Leader)
		})
	})
	cmd.Flags().DurationVar(&length, "for", time.Hour, "end the pause after `DURATION`")
	cli.ByHand(cmd.Flags(), "for")
	return cmd
}

func newResumeCommand(e cli.Env) *cobra.Command {
	return New(e, &cobra.Command{
		Use:   "resume",
		Short: "End a pause of the cluster",
		Long: `resume ends what batuta pause has begun. Any agent may be asked. Without a leader the agent asked
ends the pause, and the members elect a leader.`,
		Example: "  batuta resume --agent 127.0.0.1:7501",
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		return act(ctx, a, c, "POST", "/v1/resume", nil, func(any) string { return "resumed" })
	})
}

func newCampaignCommand(e cli.Env) *cobra.Command {
	return New(e, &cobra.Command{
		Use:   "campaign",
		Short: "Call an election",
		Long: `campaign makes the member asked call an election, and a candidate again if it has resigned. The
command prints which member leads then: a leader that is alive, and that no member outranks, stays.`,
		Example: "  batuta campaign --agent 127.0.0.1:7501",
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		var before, now api.Status
		if err := c.Get(ctx, "/v1/status", &before); err != nil {
			return err
		}
		return act(ctx, a, c, "POST", "/v1/campaign", nil, func(any) string {
			outcome := settled(ctx, func(ctx context.Context) string {
				switch err := c.Get(ctx, "/v1/status", &now); {
				case err != nil || now.Leader == nil || now.Electing:
					return ""
				case now.Epoch == before.Epoch:
					return *now.Leader + " stays leader"
				}
				return leads(*now.Leader, now.Epoch)
			})
			if outcome == undecided && now.Leader != nil {
				outcome = leads(*now.Leader, now.Epoch) + ", and the election goes on"
			}
			return "called an election; " + outcome
		})
	})
}

func newWatchCommand(e cli.Env) *cobra.Command {
	var name string
	var all bool
	cmd := New(e, &cobra.Command{
		Use:   "watch",
		Short: "Stream events",
		Long: `watch prints the events of an agent, one per line: of the cluster's own election, with
--election NAME of a named one, and with --all of all. If the connection ends, it goes on
after the last event when the agent answers again within 5 s; else the exit code is 4.`,
		Example: `  batuta watch --agent 127.0.0.1:7501
  batuta watch --election shard-17
  batuta watch --agent 127.0.0.1:7501 --json | jq .leader`,
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		of := url.Values{}
		switch {
		case all && name != "":
			return cli.Usagef("--election does not go with --all: leave one out")
		case all:
			of.Set("elections", "true")
		case name != "":
			of.Set("election", name)
		}
		if err := cli.CheckElection(name); err != nil {
			return err
		}
		text := &api.Text{Short: a.terminal}
		return c.Watch(ctx, of, Each(a, func(l api.Line) error { return text.Write(l, a.Stdout) }))
	})
	electionFlag(cmd, &name)
	cmd.Flags().BoolVar(&all, "all", false, "also events of all named elections, see batuta elections")
	cli.Alias(cmd.Flags(), "all", "elections")
	cli.ByHand(cmd.Flags(), "all") // a member's --elections is a file
	return cmd
}
