package ask

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
)

func newMembersCommand(e cli.Env) *cobra.Command {
	cmd := New(e, &cobra.Command{
		Use:   "members",
		Short: "List, add or remove members",
		Long: `members lists the members as the agent asked sees them; add and remove change the list.
The states are those that the leader publishes. LAST SEEN is when the agent asked last received a
message from a member; it is "-" between two followers, which exchange none while idle. EPOCH is
that of the last token that a member acknowledged: "-" is one that the agent asked did not learn.
MARK marks the leader, and the member asked. METADATA is what members publish (--meta),
without the keys of batuta's own; --json has them.`,
		Example: "  batuta members --agent 127.0.0.1:7501",
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		if a.json {
			return Get[[]api.Member](ctx, a, c, "/v1/members", nil)
		}
		return Get(ctx, a, c, "/v1/status", a.printMembers)
	})
	cmd.AddCommand(newMembersAddCommand(e), newMembersRemoveCommand(e))
	return cmd
}

// printMembers prints the members of a status.
func (a *Command) printMembers(s api.Status) error {
	out := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	head, publishes := "MEMBER\tMARK\tADDRESS\tPRIORITY\tSTATE\tELIGIBILITY\tEPOCH\tLAST SEEN", slices.ContainsFunc(s.Members, func(m api.Member) bool { return api.Pairs(m.Meta) != "" })
	reaps := slices.ContainsFunc(s.Members, func(m api.Member) bool { return !m.ReapedAt.IsZero() })
	if reaps {
		head += "\tREMOVED IN"
	}
	if publishes {
		head += "\tMETADATA"
	}
	fmt.Fprintln(out, head)
	for _, m := range s.Members {
		heard := "never"
		switch {
		case m.Indirect:
			heard = "-"
		case !m.LastSeen.IsZero():
			heard = a.ago(m.LastSeen.Time)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s", m.ID, mark(s, m.ID), m.Address, m.Priority, m.State, cmp.Or(m.Standing, "-"), cmp.Or(strings.TrimLeft(strconv.FormatUint(m.Epoch, 10), "0"), "-"), heard)
		if reaps && m.ReapedAt.IsZero() {
			fmt.Fprint(out, "\t-")
		} else if reaps {
			fmt.Fprintf(out, "\t%v", max(time.Until(m.ReapedAt.Time), 0).Round(time.Second))
		}
		if publishes {
			fmt.Fprintf(out, "\t%s", cmp.Or(api.Pairs(m.Meta), "-"))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// mark is what a table marks a member with: as the leader, and as the member asked.
func mark(s api.Status, id string) string {
	leads := s.Leader != nil && *s.Leader == id
	switch {
	case leads && id == s.ID:
		return "leader,asked"
	case leads:
		return "leader"
	case id == s.ID:
		return "asked"
	}
	return "-"
}

func newMembersAddCommand(e cli.Env) *cobra.Command {
	var priority int
	cmd := &cobra.Command{
		Use:   "add ID=HOST:PORT",
		Short: "Add a member, or one that was removed",
		Long: `add puts a member on the list of the agent asked, and every other learns of it.
A member that joins by itself (batuta agent --join) need not be added; one that was
removed must be.

If the member is on the list already, its address changes. The address of another member
on the list is refused: remove that member first. With --priority its rank changes
at once, until its agent starts with a --priority of its own. Without it the rank stays.`,
		Example: "  batuta members add 4=10.0.0.4:7400 --agent 127.0.0.1:7501\n  batuta members add 4=10.0.0.4:7400 --priority 10 --agent 127.0.0.1:7501",
		Args:    cli.Exactly("ID=HOST:PORT", "4=10.0.0.4:7400"),
	}
	cmd.Flags().IntVar(&priority, "priority", 0, "rank of the member, `N` (default what is known)")
	return New(e, cmd, func(ctx context.Context, a *Command, c *api.Client) error {
		id, addr, err := cli.Member("member", a.args[0])
		if err != nil {
			return err
		}
		place := api.Place{ID: string(id), Address: addr}
		if cmd.Flags().Changed("priority") {
			place.Priority = &priority
		}
		var before api.Status
		if err := c.Get(ctx, "/v1/status", &before); err != nil {
			return err
		}
		return act(ctx, a, c, "POST", "/v1/members", place, func(any) string { return added(before, place) })
	})
}

// added is what an addition has changed.
func added(s api.Status, p api.Place) string {
	i := slices.IndexFunc(s.Members, func(m api.Member) bool { return m.ID == p.ID && m.State != string(batuta.StateRemoved) })
	if i < 0 {
		return "added " + p.ID + starting(s, p)
	}
	before := s.Members[i]
	done := p.ID + " was already a member; address unchanged"
	if before.Address != p.Address {
		done = p.ID + " was already a member; its address is now " + p.Address
	}
	if p.Priority != nil && *p.Priority != before.Priority {
		done += fmt.Sprintf("; its priority is now %d", *p.Priority)
	}
	return done
}

// starting is the command that starts a member that was added, as far as the member asked shows it.
func starting(s api.Status, p api.Place) string {
	i := slices.IndexFunc(s.Members, func(m api.Member) bool { return m.ID == s.ID })
	if i < 0 || s.Wire == 0 {
		return ""
	}
	line := "\nstart it on its machine: batuta agent --id " + p.ID + " --listen " + p.Address + " --join " + s.Members[i].Address
	if s.Cluster != batuta.DefaultCluster {
		line += " --cluster " + s.Cluster
	}
	if s.Algorithm != "bully" {
		line += " --algorithm " + s.Algorithm
	}
	if s.Quorum != nil {
		line += " --data-dir DIR"
	}
	if p.Priority != nil {
		line += fmt.Sprintf(" --priority %d", *p.Priority)
	}
	if s.Timing.Heartbeat != election.DefaultHeartbeat.String() {
		line += " --heartbeat " + s.Timing.Heartbeat
	}
	if s.Timing.TMax != election.DefaultTMax.String() || s.Timing.TProcess != election.DefaultTProcess.String() {
		line += " --t-max " + s.Timing.TMax + " --t-process " + s.Timing.TProcess
	}
	if s.Security == "insecure" && !api.Loopback(p.Address) {
		line += " --insecure"
	}
	return line + map[string]string{"secret": " --secret-file FILE", "tls": " --tls-cert FILE --tls-key FILE --tls-ca FILE"}[s.Security]
}

func newMembersRemoveCommand(e cli.Env) *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a member until it is added again",
		Long: `remove takes a member off the list of the agent asked, and every other learns of
it. Its agent ends with exit code 1, now or when it returns. Removing the leader
makes the others elect.

Before it removes the last member, or leaves a quorum without a majority, the command
asks on a terminal. Elsewhere it needs --yes, and ends with exit code 2 without it.

In a quorum a majority decides on it. It is refused if no majority of the remaining voters is
reached, unless --yes or --force is given: then no member leads until more than half of them
are back. If the majority is lost already, it is refused in any case: start enough of the
other members again, with their data directories, or see batuta recover.`,
		Example: "  batuta members remove 4 --agent 127.0.0.1:7501\n  batuta members remove 1 --yes",
		Args:    cli.Exactly("ID", "4"),
	}
	cmd.Flags().BoolVar(&force, "force", false, "of a quorum: also where too few live voters are left to lead; no member leads until more are back")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before the last member is removed, or the last majority of a quorum")
	return New(e, cmd, func(ctx context.Context, a *Command, c *api.Client) error {
		id := a.args[0]
		var s api.Status
		if err := c.Get(ctx, "/v1/status", &s); err != nil {
			return err
		}
		if !force && !yes {
			if loss := lossOf(s, id); loss != "" {
				if !a.confirmed(ctx, election.Shown(loss)+". Remove it?") {
					return cli.Usagef("%s: nothing was removed; to remove it all the same, give --yes", loss)
				}
				force = true
			}
		}
		path := "/v1/members/" + url.PathEscape(id)
		if force || yes {
			path += "?force=true"
		}
		return missing(act(ctx, a, c, "DELETE", path, nil, func(any) string {
			done := "removed " + id + "; its agent ends with exit code 1, now or when it returns"
			if mark(s, id) == "leader" { // an agent that was asked to remove itself answers no more
				done += "\n" + next(ctx, c, s.Epoch)
			}
			return done
		}), "batuta members lists them")
	})
}

// lossOf is what the cluster loses with a member, if that is more than the member.
func lossOf(s api.Status, id string) string {
	members := 0
	up := map[string]bool{}
	for _, m := range s.Members {
		if m.State != string(batuta.StateRemoved) {
			members++
		}
		up[m.ID] = m.State == string(batuta.StateUp)
	}
	if members == 1 && slices.ContainsFunc(s.Members, func(m api.Member) bool { return m.ID == id && m.State != string(batuta.StateRemoved) }) {
		return fmt.Sprintf("%s is the last member: without it no member leads, and its agent ends", id)
	}
	if s.Quorum == nil {
		return ""
	}
	for _, voters := range s.Quorum.Voters {
		left := slices.DeleteFunc(slices.Clone(voters), func(v string) bool { return v == id })
		reached := slices.DeleteFunc(slices.Clone(left), func(v string) bool { return !up[v] })
		if len(left) < len(voters) && 2*len(reached) <= len(left) {
			return fmt.Sprintf("without %s only %d of %d voters are up, which is no majority: no member leads until more than half are", id, len(reached), len(left))
		}
	}
	return ""
}

// confirmed asks the user, if there is a terminal; an interrupt is a no.
func (a *Command) confirmed(ctx context.Context, question string) bool {
	if a.Confirm == nil {
		return false
	}
	answer := make(chan bool, 1)
	go func() { answer <- a.Confirm(question) }()
	select {
	case yes := <-answer:
		return yes
	case <-ctx.Done():
		return false
	}
}
