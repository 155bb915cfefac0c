package ask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/net/security"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command asks an agent.
type Command struct {
	cli.Env
	http string
	json bool
	args []string

	access accessFlags
	let    api.Access

	terminal bool // the answer is shown on a terminal

	answered time.Time // when the agent answered, and further ones were waited for; zero: just now
}

// New gives cmd the flags of a command that asks an agent; ask does its work.
func New(e cli.Env, cmd *cobra.Command, ask func(context.Context, *Command, *api.Client) error) *cobra.Command {
	a := &Command{Env: e}
	if cmd.Args == nil {
		cmd.Args = cobra.NoArgs
	}
	a.register(cmd)
	if strings.HasSuffix(cmd.Use, " ID") {
		cmd.ValidArgsFunction = a.members
	}
	lines := cli.JSONFlag(cmd, &a.json)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.args = args
		client, err := a.client()
		if err != nil {
			return err
		}
		if a.terminal = cli.IsTerminal(a.Stdout); !a.json {
			a.Stdout = shownWriter{cli.Paint(a.Stdout, a.terminal, e.Lookup)}
		} else if *lines {
			a.Stdout = linesWriter{a.Stdout}
		}
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return ask(ctx, a, client)
	}
	return cmd
}

// askedForCompletion bounds how long a shell waits for an agent.
const askedForCompletion = time.Second

// members completes the ID of a member: the agent is that which the command would ask.
func (a *Command) members(cmd *cobra.Command, args []string, _ string) (ids []string, _ cobra.ShellCompDirective) {
	const noFiles = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 || cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, noFiles
	}
	client, err := a.client()
	if err != nil {
		return nil, noFiles
	}
	ctx, cancel := context.WithTimeout(context.Background(), askedForCompletion)
	defer cancel()
	var list []api.Member
	if client.Get(ctx, "/v1/members", &list) != nil {
		return nil, noFiles
	}
	for _, m := range list {
		ids = append(ids, m.ID+"\t"+m.State+" at "+m.Address)
	}
	slices.Sort(ids)
	return ids, noFiles
}

// register adds the flags that find an agent.
func (a *Command) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.http, "agent", "", "`HOST:PORT` or unix:PATH of any agent's HTTP API, as in its ready event (default the http setting in "+cli.SystemConfig+", else "+cli.DefaultHTTP+")")
	cli.Alias(cmd.Flags(), "agent", "http")
	cmd.Annotations = map[string]string{cli.Asks: "an agent"}
	a.access.register(cmd.Flags())
}

// client is of the agent that is asked.
func (a *Command) client() (*api.Client, error) {
	if a.http == "" || strings.HasSuffix(a.http, ":0") { // a file may leave the port open
		a.http = a.Env.Agent
	}
	var err error
	if a.let, err = a.access.access(); err != nil {
		return nil, err
	}
	if a.http == "off" {
		return nil, cli.Usagef("the setting http is off: that agent has no API; name another one by --agent HOST:PORT")
	}
	client, err := api.NewClient(a.http, a.let)
	if err != nil {
		return nil, cli.Usagef("--agent: %w", err)
	}
	return client, nil
}

// shownWriter escapes what an agent sends and does not print: ids, addresses and
// reasons come from remote machines, and must not steer this terminal.
type shownWriter struct{ io.Writer }

// Write takes whole texts: no character is split between two.
func (w shownWriter) Write(p []byte) (int, error) {
	lines := strings.Split(string(p), "\n")
	for i, line := range lines {
		lines[i] = election.Shown(line)
	}
	if _, err := io.WriteString(w.Writer, strings.Join(lines, "\n")); err != nil {
		return 0, err
	}
	return len(p), nil
}

// linesWriter prints each entry of a list in JSON in a line, and everything else as it is.
type linesWriter struct{ io.Writer }

// Write takes whole documents.
func (w linesWriter) Write(p []byte) (int, error) {
	var list []json.RawMessage
	if json.Unmarshal(p, &list) != nil || list == nil {
		return w.Writer.Write(p)
	}
	for _, entry := range list {
		if _, err := fmt.Fprintf(w.Writer, "%s\n", entry); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Get asks path and prints the answer: as it came with --json, else by text.
func Get[T any](ctx context.Context, a *Command, c *api.Client, path string, text func(T) error) error {
	return call(ctx, a, c, "GET", path, nil, text)
}

// act calls the agent to change something, and prints what is done: as it was answered with --json, else as text gives it.
func act[T any](ctx context.Context, a *Command, c *api.Client, method, path string, body any, text func(T) string) error {
	return call(ctx, a, c, method, path, body, func(done T) error {
		_, err := fmt.Fprintln(a.Stdout, text(done))
		return err
	})
}

func call[T any](ctx context.Context, a *Command, c *api.Client, method, path string, body any, text func(T) error) error {
	if a.json {
		var raw json.RawMessage
		if err := c.Call(ctx, method, path, body, &raw); err != nil {
			return err
		}
		return a.printRaw(raw)
	}
	var v T
	if err := c.Call(ctx, method, path, body, &v); err != nil {
		return err
	}
	return text(v)
}

// Each prints the lines of a stream: as they come with --json, else by text.
func Each[T any](a *Command, text func(T) error) func(line []byte) error {
	return func(line []byte) error {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			return cli.Exit(cli.NoAgent, fmt.Errorf("agent %s: event is not batuta's: %w", a.http, err))
		}
		if a.json {
			return a.printRaw(line)
		}
		return text(v)
	}
}

func (a *Command) printRaw(raw json.RawMessage) error {
	_, err := fmt.Fprintf(a.Stdout, "%s\n", strings.TrimSpace(string(raw)))
	return err
}

// report prints text, or with --json the answer.
func (a *Command) report(answer any, text string) error {
	if a.json {
		return json.NewEncoder(a.Stdout).Encode(answer)
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}

// electionFlag adds --election to a command that asks; what a file or a variable has there
// is a member's own.
func electionFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "election", "", "`NAME` of a named election, see batuta elections (default the cluster's own)")
	cli.ByHand(cmd.Flags(), "election")
}

// missing adds where to look for what the agent does not know.
func missing(err error, list string) error {
	if answer, ok := errors.AsType[*api.AnswerError](err); ok && answer.Code == http.StatusNotFound {
		return fmt.Errorf("%w; %s", err, list)
	}
	return err
}

// next is which member leads under an epoch above after, as the agent asked sees it.
func next(ctx context.Context, c *api.Client, after uint64) string {
	return settled(ctx, func(ctx context.Context) string {
		var l api.Leader
		if err := c.Get(ctx, "/v1/leader", &l); err != nil || l.Epoch <= after {
			return ""
		}
		return leads(l.Leader, l.Epoch)
	})
}

func leads(id string, epoch uint64) string { return fmt.Sprintf("%s leads, epoch %d", id, epoch) }

const undecided = "no member leads yet"

// settled is what look returns first that is not empty, within 4 s.
func settled(ctx context.Context, look func(context.Context) string) string {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if outcome := look(ctx); outcome != "" {
			return outcome
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return undecided
		}
	}
}

// age is how old t was when the agent answered.
func (a *Command) age(t time.Time) time.Duration {
	if a.answered.IsZero() {
		return max(0, time.Since(t))
	}
	return max(0, a.answered.Sub(t))
}

// ago is how long ago t was: to the millisecond within ten seconds, then to the second.
func (a *Command) ago(t time.Time) string {
	since, to := a.age(t), time.Second
	if since < 10*time.Second {
		to = time.Millisecond
	}
	return since.Round(to).String() + " ago"
}

// accessFlags are what a command needs to be let in by an agent.
type accessFlags struct{ cluster, secretFile, tlsCA, tokenFile string }

func (f *accessFlags) register(fs *pflag.FlagSet) {
	fs.StringVar(&f.tokenFile, "http-token-file", "", "`FILE` with a token of the agent: the first with role operate, else the first")
	fs.StringVar(&f.tlsCA, "tls-ca", "", "`FILE` with the authorities to accept of an agent on another machine")
	fs.StringVar(&f.secretFile, "secret-file", "", "`FILE` with the cluster's secret, to accept an agent that has it")
	fs.StringVar(&f.cluster, "cluster", "default", "`NAME` of the cluster that the secret is of")
}

func (f *accessFlags) access() (api.Access, error) {
	config, err := security.ClientConfig(f.cluster, f.secretFile, f.tlsCA)
	if err != nil {
		return api.Access{}, cli.Usagef("%w", err)
	}
	a := api.Access{TLS: config}
	if f.tokenFile != "" {
		tokens, err := access.ReadFile(f.tokenFile)
		if len(tokens) == 0 {
			return api.Access{}, cli.Usagef("--http-token-file: %w", err)
		}
		tokens = slices.DeleteFunc(tokens, func(g access.Grant) bool { return g.Token == "" })
		if len(tokens) == 0 {
			return api.Access{}, cli.Usagef("--http-token-file %s has only lines of users: add one with a token, or leave the flag out at a Unix socket", f.tokenFile)
		}
		best := slices.IndexFunc(tokens, func(g access.Grant) bool { return g.Role == access.Operate })
		a.Token = tokens[max(best, 0)].Token
	}
	return a, nil
}
