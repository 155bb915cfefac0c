package ask

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/explain"
	"github.com/batuta-dev/batuta/quorum"
)

func newStatusCommand(e cli.Env) *cobra.Command {
	var also []string
	var all bool
	cmd := New(e, &cobra.Command{
		Use:   "status",
		Short: "Show the leader, since when, and why",
		Long: `status asks one agent, and with --also further ones. It prints which member leads, since when
and why; whether the agents asked agree; how long a failover takes with this
configuration, and what is promised.

With --all each member is asked. The agent asks them which leader they follow, over the
connections of members: one address is enough. The agent of a member that publishes its
HTTP API (--http-advertise) is asked for its whole status, without a token.`,
		Example: `  batuta status --agent 127.0.0.1:7501
  batuta status --all
  batuta status --agent 127.0.0.1:7501 --also 127.0.0.1:7502 --also 127.0.0.1:7503
  BATUTA_AGENT=127.0.0.1:7501 batuta status --json`,
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		var s api.Status
		if a.json && !all {
			return Get[api.Status](ctx, a, c, "/v1/status", nil)
		}
		if err := c.Get(ctx, "/v1/status", &s); err != nil {
			return err
		}
		a.answered = time.Now()
		var views []view
		for _, addr := range also {
			views = append(views, view{Addr: addr})
		}
		views = askOthers(ctx, a.let, views)
		if all {
			var asked []api.MemberView // none on a wire without the question
			var refused *api.AnswerError
			if err := c.Get(ctx, "/v1/views", &asked); err != nil && (!errors.As(err, &refused) || refused.Code != http.StatusNotImplemented) {
				return err
			}
			views = append(views, askOthers(ctx, api.Access{TLS: a.let.TLS}, published(s, asked))...)
		}
		if a.json {
			return json.NewEncoder(a.Stdout).Encode(append([]view{{ID: s.ID, Addr: a.http, Status: &s}}, views...))
		}
		return a.printStatus(ctx, c, s, views)
	})
	cmd.Flags().BoolVar(&all, "all", false, "ask all members which leader they follow")
	cli.ByHand(cmd.Flags(), "all")
	cli.ListVar(cmd.Flags(), &also, "also", "`HOST:PORT` of another agent's HTTP API, to compare its view; repeatable")
	return cmd
}

func newExplainCommand(e cli.Env) *cobra.Command {
	var trace bool
	var last int
	var lab, name string
	var also []string
	cmd := New(e, &cobra.Command{
		Use:   "explain",
		Short: "Show why leadership changed",
		Long: `explain prints one sentence for each change of leadership that the agent asked has
detected, the newest first: the cause, the next leader, and the time in between. With
--trace it prints each step and message of that member instead, the oldest first.
With --election NAME the changes are those of a named election.
With --lab it writes what all members have recorded into a file, which "batuta lab FILE"
opens: what each member had received at which moment. The other agents are asked at the
addresses that their members publish (--http-advertise), or at those of --also.`,
		Example: `  batuta explain --agent 127.0.0.1:7501
  batuta explain --last 1
  batuta explain --json | jq -r '.[] | select(.cause == "silent") | .time'
  batuta explain --election shard-17
  batuta explain --trace
  batuta explain --lab incident.json && batuta lab incident.json`,
	}, func(ctx context.Context, a *Command, c *api.Client) error {
		switch {
		case last < 0:
			return cli.Usagef("--last %d is negative: give the number of changes to print, or 0 for all", last)
		case lab != "" && (trace || last > 0 || a.json):
			return cli.Usagef("--lab writes all that there is: use it without --trace, --last and --json")
		case lab == "" && also != nil:
			return cli.Usagef("--also is for --lab FILE")
		case name != "" && (trace || lab != ""):
			return cli.Usagef("--election does not go with --trace and --lab: leave one out")
		case lab != "":
			return a.writeIncident(ctx, c, lab, also)
		}
		if trace {
			return a.explainTrace(ctx, c, last)
		}
		var h api.History
		path := "/v1/history"
		if name != "" {
			path += "?election=" + url.QueryEscape(name)
		}
		if err := cmp.Or(cli.CheckElection(name), c.Get(ctx, path, &h)); err != nil {
			return missing(err, "batuta elections lists them")
		}
		changes := explain.Changes(h.Events)
		slices.Reverse(changes)
		if last > 0 {
			changes = changes[:min(last, len(changes))]
		}
		return a.printChanges(h, changes)
	})
	electionFlag(cmd, &name)
	cmd.Flags().BoolVar(&trace, "trace", false, "print each step and message instead, the oldest first")
	cmd.Flags().IntVar(&last, "last", 0, "print only the newest `N` (default all that the agent keeps)")
	cmd.Flags().StringVar(&lab, "lab", "", "write the records of all members into `FILE`, for batuta lab")
	cli.ListVar(cmd.Flags(), &also, "also", "`HOST:PORT` of another agent's HTTP API to ask for --lab; repeatable (default as published)")
	return cmd
}

// writeIncident writes what the members have recorded into a file.
func (a *Command) writeIncident(ctx context.Context, c *api.Client, file string, also []string) error {
	in, err := explain.Gather(ctx, c, also, a.let)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(in)
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("--lab: %w", err)
	}
	answered := len(in.Members)
	for _, m := range in.Members {
		if m.Error != "" {
			answered--
			fmt.Fprintf(a.Stdout, "no records of %s: %s\n", cmp.Or(m.ID, "an agent of --also"), m.Error)
		}
	}
	_, err = fmt.Fprintf(a.Stdout, "%s has the records of %d members; open it: batuta lab %s\n", file, answered, file)
	return err
}

func (a *Command) explainTrace(ctx context.Context, c *api.Client, last int) error {
	var records []api.Record
	if err := c.Get(ctx, "/v1/trace", &records); err != nil {
		return err
	}
	if last > 0 {
		records = records[max(0, len(records)-last):]
	}
	if a.json {
		return json.NewEncoder(a.Stdout).Encode(records)
	}
	return a.printTrace(records)
}

func (a *Command) printChanges(h api.History, changes []explain.Change) error {
	if a.json {
		return json.NewEncoder(a.Stdout).Encode(changes)
	}
	if len(changes) == 0 {
		_, err := fmt.Fprintf(a.Stdout, "no change of leadership since %s, when the agent started: no leader is known; batuta status prints why\n", explain.Moment(h.Began))
		return err
	}
	for _, c := range changes {
		if _, err := fmt.Fprintln(a.Stdout, c.Sentence); err != nil {
			return err
		}
	}
	return nil
}

// view is the answer of a remote agent or member, or the error.
type view struct {
	ID     string          `json:"id,omitempty"` // known before it is asked
	Addr   string          `json:"http,omitempty"`
	Status *api.Status     `json:"status,omitempty"`
	View   *api.MemberView `json:"view,omitempty"` // of the member itself, by way of the agent asked
	Error  string          `json:"error,omitempty"`
}

// published are the other members with what they have answered, and where they publish their APIs.
func published(s api.Status, asked []api.MemberView) (views []view) {
	for _, m := range s.Members {
		if m.ID == s.ID || m.State == string(batuta.StateRemoved) {
			continue
		}
		v := view{ID: m.ID, Addr: m.Meta[api.MetaHTTP]}
		if at := slices.IndexFunc(asked, func(of api.MemberView) bool { return of.ID == m.ID }); at >= 0 {
			v.View, v.Error = &asked[at], asked[at].Error
		} else if v.Addr == "" {
			v.Error = m.ID + " is not asked: its wire has no such question, and it does not publish its HTTP API"
		}
		if _, err := api.ParseMetaHTTP(v.Addr); v.Addr != "" && err != nil && v.Error == "" {
			v.Error = fmt.Sprintf("%s publishes %.80q as its HTTP API: %v", m.ID, v.Addr, err)
		}
		views = append(views, v)
	}
	return views
}

// answered returns the leader that a member follows, by the whole status of its agent or by its own view.
func (v view) answered() (api.Status, bool) {
	switch {
	case v.Status != nil:
		return *v.Status, true
	case v.View != nil && v.View.Error == "":
		return api.Status{ID: v.ID, Leader: v.View.Leader, Epoch: v.View.Epoch, Token: v.View.Token}, true
	}
	return api.Status{}, false
}

// askOthers asks all at once: a slow agent delays no answer but its own.
func askOthers(ctx context.Context, access api.Access, views []view) []view {
	ctx, cancel := context.WithTimeout(ctx, othersTime)
	defer cancel()
	var asked sync.WaitGroup
	for i := range views {
		v := &views[i]
		if v.Error != "" || v.Addr == "" {
			continue
		}
		asked.Go(func() {
			var s api.Status
			c, err := api.NewClient(v.Addr, access)
			if err == nil {
				err = c.Get(ctx, "/v1/status", &s)
			}
			if err == nil && v.ID != "" && v.ID != s.ID {
				err = fmt.Errorf("agent %s is of member %s, and member %s publishes it: correct --http-advertise", v.Addr, s.ID, v.ID)
			}
			if v.Status = &s; err != nil {
				v.Status, v.Error = nil, err.Error()
			}
		})
	}
	asked.Wait()
	return views
}

// othersTime bounds how long other agents may take to answer.
const othersTime = 2 * time.Second

func (a *Command) printStatus(ctx context.Context, c *api.Client, s api.Status, others []view) error {
	var h api.History
	if err := c.Get(ctx, "/v1/history", &h); err != nil {
		return err
	}
	out := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "leader\t%s\n", a.leaderLine(s))
	if changes := explain.Changes(h.Events); len(changes) > 0 {
		fmt.Fprintf(out, "why\t%s\n", changes[len(changes)-1].Sentence)
	}
	fmt.Fprintf(out, "asked\t%s, %s of cluster %q, up %v\n", s.ID, s.Role, s.Cluster, time.Duration(s.Uptime*float64(time.Second)).Round(time.Second))
	a.printStanding(out, s)
	a.printAgreement(out, s, others)
	if len(s.Drained) > 0 {
		fmt.Fprintf(out, "drained\t%s: no named election is led there\n", strings.Join(s.Drained, ", "))
	}
	printRefusals(out, s)
	printFailover(out, s)
	if s.Successor != nil {
		fmt.Fprintf(out, "ring\t%s\n", place(s))
	}
	fmt.Fprintf(out, "security\t%s\n", securityLine(s))
	fmt.Fprintf(out, "promise\t%s\n", promise(s))
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(a.Stdout)
	return a.printMembers(s)
}

// securityLine describes what an unauthenticated client at the port has to get past.
func securityLine(s api.Status) string {
	switch s.Security {
	case "secret":
		return "members share a secret, over TLS"
	case "tls":
		return "members have certificates, over TLS"
	}
	return "none: any process that can reach the port can join"
}

func (a *Command) leaderLine(s api.Status) string {
	line := "none known"
	if s.Leader != nil {
		line = fmt.Sprintf("%s, epoch %d", *s.Leader, s.Epoch)
	}
	if !s.Since.IsZero() {
		line += fmt.Sprintf(", since %s (%s)", s.Since.Local().Format(time.RFC3339), a.ago(s.Since.Time))
	}
	return line
}

// printStanding prints the reason for which the member asked is no candidate, if it is none.
func (a *Command) printStanding(out io.Writer, s api.Status) {
	if s.Paused != nil {
		fmt.Fprintf(out, "PAUSED\tuntil %s: %s stays leader, alive or not; batuta resume ends that\n", s.Paused.Until.Format(time.RFC3339), cmp.Or(s.Paused.Leader, "the next leader"))
	}
	if s.Standing != "" && s.Standing != "eligible" { // an older agent has none
		since := ""
		if !s.StandingSince.IsZero() {
			since = fmt.Sprintf(", for %v", a.age(s.StandingSince.Time).Round(time.Millisecond))
		}
		fmt.Fprintf(out, "candidate\tno: %s%s\n", s.Standing, since)
		if s.StandingWhy != "" {
			fmt.Fprintf(out, "\t%s\n", s.StandingWhy)
		}
	}
	if s.DiskError != "" {
		fmt.Fprintf(out, "DISK\t%s\n", s.DiskError)
	}
}

// printAgreement compares what the members hold: by their own answers where they
// were asked, else by what they have acknowledged to the leader.
func (a *Command) printAgreement(out io.Writer, s api.Status, others []view) {
	agreed := 1
	for _, v := range others {
		it, answered := v.answered()
		switch {
		case !answered:
			fmt.Fprintf(out, "SILENT\t%s\n", v.Error)
		case v.Status != nil && (v.Status.Cluster != s.Cluster || v.Status.Election != s.Election):
			fmt.Fprintf(out, "ELSEWHERE\t%s at %s is of cluster %q\n", v.Status.ID, v.Addr, v.Status.Cluster)
		case !reflect.DeepEqual(it.Token, s.Token):
			fmt.Fprintf(out, "DISAGREES\t%s reports: %s\n", it.ID, a.leaderLine(it))
		default:
			agreed++
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(out, "agreement\t%d of the %d asked report the same\n", agreed, len(others)+1)
	}
}

// printRefusals prints which members and the member asked refuse each other, and which of them have
// addresses with names that do not resolve.
func printRefusals(out io.Writer, s api.Status) {
	for _, m := range s.Members {
		if m.Refusal != "" {
			fmt.Fprintf(out, "REFUSED\t%s, by %s\n", m.ID, m.Refusal)
		}
		if m.Unresolved != "" {
			fmt.Fprintf(out, "UNRESOLVED\t%s: %s\n", m.ID, m.Unresolved)
		}
	}
}

// printFailover prints how long a failover takes. These are sums of what
// the rules wait for; what a machine or network adds beyond its settings comes on top.
func printFailover(out io.Writer, s api.Status) {
	t, err := times(s.Timing)
	if err != nil {
		return // an older agent, which has none
	}
	if s.Takeover != "" {
		printLeasing(out, s, t.silence)
		return
	}
	fmt.Fprintf(out, "failover\tkilled: seen at once; the next leads within %v, mostly a few ms\n", t.max+t.process)
	fmt.Fprintf(out, "\tfrozen or cut off: within %v (T = %v of silence, a question to the others, a claim)\n", t.silence+3*t.max+t.process, t.silence)
	fmt.Fprintf(out, "\tstopped with SIGTERM: handed over as soon as its work has ended\n")
	if s.Rhythm.Silence > 0 {
		left := "none"
		if s.Headroom >= 0 {
			left = fmt.Sprintf("%.0f %% of T", 100*s.Headroom)
		}
		fmt.Fprintf(out, "headroom\t%s: in the last 10 minutes others were silent for %v at most, and this member was late by %v\n",
			left, seconds(s.Rhythm.Silence), seconds(s.Rhythm.Stall))
	}
}

// printLeasing prints the same of a quorum, and its assumption.
func printLeasing(out io.Writer, s api.Status, silence time.Duration) {
	killed := "the next leads when its lease has ended"
	switch {
	case s.Takeover == string(quorum.TakeoverRefused):
		killed = "its address refuses connections, and the next leads at once: unsafe behind filters"
	case s.Takeover == string(quorum.TakeoverAttested) && s.Unattested == "":
		killed = "its guard attests that, and the next leads at once"
	case s.Unattested != "":
		killed = "the next leads when its lease has ended, for " + s.Unattested
	}
	fmt.Fprintf(out, "failover\tkilled: %s; takeover %s\n", killed, s.Takeover)
	fmt.Fprintf(out, "\tfrozen or cut off: about T = %v after its last heartbeat\n", silence)
	fmt.Fprintf(out, "\tstopped with SIGTERM: handed over as soon as its work has ended\n")
	fmt.Fprintf(out, "clocks\tno two may differ in rate by more than %g %%; what they show does not matter\n", 100*s.ClockDrift)
}

// seconds formats a time of an agent's answer for a person.
func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Microsecond)
}

// timing is what a member waits for.
type timing struct{ max, process, silence time.Duration }

func times(t api.Timing) (timing, error) {
	limit, err := time.ParseDuration(t.TMax)
	process, err2 := time.ParseDuration(t.TProcess)
	silence, err3 := time.ParseDuration(t.T)
	return timing{limit, process, silence}, errors.Join(err, err2, err3)
}

// place describes where a member is in its ring.
func place(s api.Status) string {
	switch {
	case *s.Successor == "":
		return "the only member of it"
	case s.Participating != nil && *s.Participating:
		return "passes on to " + *s.Successor + ", participating in an election"
	}
	return "passes on to " + *s.Successor + ", no election"
}

// promise describes the guarantee of a status answer.
func promise(s api.Status) string {
	switch {
	case s.Guarantee == batuta.GuaranteeOneLeader && s.Takeover == string(quorum.TakeoverRefused):
		return s.Algorithm + ", one leader, as long as only the kernel of its machine refuses connections to its address:\n" +
			"\tno firewall, proxy or other machine answers with a reset; otherwise there may be two at a time"
	case s.Guarantee == batuta.GuaranteeOneLeader:
		return s.Algorithm + ", one leader: never two at a time"
	}
	text := s.Algorithm + ", best effort: while a partition lasts, each side has its own leader"
	if !s.Fencing {
		text += "; its token is no fence"
	}
	return text
}

func (a *Command) printTrace(trace []api.Record) error {
	out := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range trace {
		what := strings.Join(slices.DeleteFunc([]string{r.What, r.Message, r.Peer}, func(s string) bool { return s == "" }), " ")
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", r.Time.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), what, r.Token, r.Why)
	}
	return out.Flush()
}
