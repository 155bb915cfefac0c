package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/batuta-dev/batuta/cmd/batuta/internal/peeragent"
	"github.com/batuta-dev/batuta/cmd/batuta/internal/simulate"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/command/ask"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/resident"
	"github.com/batuta-dev/batuta/internal/follow"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// defaultPeerHTTP is where the first super peer's agent of a machine is asked.
const defaultPeerHTTP = "127.0.0.1:7700"

// peerFlags are the flags of "superpeer agent".
type peerFlags struct {
	config    superpeer.Config
	method    string
	members   string
	http      string
	httpHosts []string
	security  securityFlags
	hook      cli.Hooks
	output    cli.Output
}

func (f *peerFlags) register(fs *pflag.FlagSet) {
	c := &f.config
	fs.StringVar(&c.Overlay, "cluster", "default", "`NAME` of the overlay; nodes of other overlays are refused")
	fs.StringVar(&c.ID, "id", "", "`ID` of this node, for people (default drawn at random)")
	fs.StringVar(&c.Listen, "listen", superpeer.DefaultListen, "`HOST:PORT`, UDP and TCP, at which nodes reach this one; port 0 picks a free one")
	fs.StringVar(&c.Advertise, "advertise", "", "`HOST:PORT` to publish instead of the listen address")
	cli.ListVar(fs, &c.Join, "join", "`HOST:PORT` of any node to join through; repeatable (default none: create the overlay)")
	fs.Float64Var(&c.Fraction, "fraction", superpeer.DefaultFraction, "`N`, the share of the nodes that are to be super peers, at most 1; the same on all")
	fs.IntVar(&c.Capacity, "capacity", 0, "`N` nodes at most are served by a super peer, itself not counted; 0 for no limit; the same on all")
	fs.StringVar(&f.method, "method", string(rules.Tokens), "choose super peers by method `NAME`: tokens, textbook, prefix, prefix-exact or random; the same on all")
	fs.StringVar(&f.members, "membership", string(superpeer.MembershipFull), "`MODE` full: every node knows all; core: super peers know each other, the others a few of them, for thousands of nodes; the same on all")
	fs.DurationVar(&c.Round, "round", superpeer.DefaultRound, "`DURATION` of a round: more than twice the longest round trip; the same on all")
	fs.StringVar(&c.Service, "service", "", "`TEXT` to publish about this node's service, such as its HOST:PORT")
	fs.StringVar(&c.Secret, "secret-file", "", "`FILE` with the overlay's secret, as printed by 'batuta secret new': all that is sent is encrypted")
	fs.BoolVar(&c.Insecure, "insecure", false, "serve addresses beyond loopback to anyone, without a secret or tokens")
	fs.StringVar(&f.http, "http", defaultPeerHTTP, "`HOST:PORT` or unix:PATH of the HTTP API, or off; if the default port is taken, any free one")
	cli.ListVar(fs, &f.httpHosts, "http-host", "`NAME` under which the API may be asked, besides localhost and IP addresses; repeatable")
	fs.StringVar(&f.security.httpTokens, "http-token-file", "", "`FILE` of tokens for the HTTP API, one per line with its role, read or operate")
	fs.StringVar(&f.security.httpCert, "http-tls-cert", "", "`FILE` with the HTTP API's certificate (default one made from the secret)")
	fs.StringVar(&f.security.httpKey, "http-tls-key", "", "`FILE` with the HTTP API's key")
	fs.StringVar(&f.security.healthHTTP, "health-http", "", "`HOST:PORT` that serves only /super, /healthz and /readyz (yes or no), without a token")
	f.hook.Register(fs,
		"on-super", "`COMMAND` to run when this node becomes a super peer, without a shell; BATUTA_ variables describe the event",
		"on-client", "`COMMAND` to run when a super peer begins to serve this node: BATUTA_HOME, BATUTA_ADDRESS, BATUTA_SERVICE")
	f.output.Register(fs, "text")
}

// check finds every flag that is not valid, before anything starts.
func (f *peerFlags) check() error {
	f.config.Method, f.config.Membership = rules.Method(f.method), superpeer.Membership(f.members)
	f.security.secretFile, f.security.insecure = f.config.Secret, f.config.Insecure
	if f.config.Fraction == 0 {
		return cli.Usagef("--fraction 0: want 1e-07 to 1")
	}
	if f.config.Round == 0 {
		return cli.Usagef("--round 0s: want 50ms to 1m0s")
	}
	if err := f.config.Validate(); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	return cmp.Or(f.security.checkHTTP(f.http), f.hook.Check(), f.output.Check())
}

func (f *peerFlags) hooks(log *slog.Logger) *peeragent.Hooks {
	return &peeragent.Hooks{OnSuper: f.hook.Words("on-super"), OnClient: f.hook.Words("on-client"), Timeout: f.hook.Timeout, Log: log}
}

func newSuperpeerAgentCommand(e cli.Env) *cobra.Command {
	var f peerFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run a node of an overlay, which may become a super peer",
		Long: `agent runs one node of an overlay until SIGTERM or SIGINT: some of the nodes are
elected to serve the rest, so that each has one near it, their number is the
share asked for, and none serves more than --capacity others. Events go to
standard output, logs to standard error. SIGHUP reads the files of the secret
and of tokens again.`,
		Example: `  # an overlay of three on one machine, in three terminals
  batuta superpeer agent --id a --fraction 0.34
  batuta superpeer agent --id b --fraction 0.34 --listen 127.0.0.1:7601 --join 127.0.0.1:7600
  batuta superpeer agent --id c --fraction 0.34 --listen 127.0.0.1:7602 --join 127.0.0.1:7600

  # on a network, with a hook that connects the service to its super peer
  batuta superpeer agent --listen 10.0.0.7:7600 --join 10.0.0.1:7600 --secret-file secret \
    --fraction 0.02 --capacity 100 --on-client /usr/local/bin/reconnect`,
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a := &peerRun{Env: e, flags: &f, cmd: cmd}
		return a.run(cmd.Context())
	}
	return cmd
}

// peerRun is a process of "superpeer agent".
type peerRun struct {
	cli.Env
	flags *peerFlags
	cmd   *cobra.Command
	log   *slog.Logger
	node  *superpeer.Member

	tokens  *access.Tokens
	servers []*peeragent.Server // of the HTTP API, and of --health-http
}

func (a *peerRun) run(ctx context.Context) error {
	signals := make(chan os.Signal, 4) // caught before anything is announced
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer signal.Stop(signals)
	log, err := a.flags.output.Open(a.Stderr)
	if err != nil {
		return err
	}
	a.log = log
	defer a.flags.output.Close()
	if err := a.flags.check(); err != nil {
		return err
	}
	operating, err := cli.ListenAPI(a.flags.http, a.cmd.Flags().Changed("http"))
	if err != nil {
		return err
	}
	health, err := a.flags.security.listenHealth()
	if err != nil {
		return err
	}
	if err := a.serve(operating, health); err != nil {
		return err
	}
	defer a.endHTTP()
	joined, err := a.join(ctx, signals)
	if err != nil || !joined {
		return err
	}
	for _, server := range a.servers {
		server.Joined(a.node)
	}
	return a.wait(operating, signals)
}

// endHTTP lets answers finish.
func (a *peerRun) endHTTP() {
	for _, server := range a.servers {
		server.Close(context.Background())
	}
}

// join tries until a peer answers or a signal comes.
func (a *peerRun) join(ctx context.Context, signals chan os.Signal) (joined bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := a.flags.config
	config.Logger = a.log
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.node, err = superpeer.Join(ctx, config)
	}()
	ended := false
	for {
		select {
		case s := <-signals:
			if s == os.Interrupt || s == syscall.SIGTERM {
				ended = true
				cancel()
			}
			continue
		case <-done:
		}
		break
	}
	switch {
	case ended && err != nil:
		return false, nil
	case ended:
		return false, a.node.Close()
	case errors.Is(err, superpeer.ErrConfig), errors.Is(err, superpeer.ErrRefused):
		return false, cli.Exit(cli.Usage, err)
	}
	return err == nil, err
}

// serve answers on the listeners that there are, before the node has joined: joining may take long,
// and a health check must see meanwhile that the process lives and is not ready.
func (a *peerRun) serve(operating, health net.Listener) (err error) {
	f := a.flags
	if f.security.httpTokens != "" {
		if a.tokens, err = access.Load(f.security.httpTokens); err != nil {
			return cli.Exit(cli.Usage, err)
		}
	}
	if operating != nil {
		secured, err := f.security.serving(f.config.Overlay, f.config.ID, f.http)
		if err != nil {
			return cli.Exit(cli.Usage, err)
		}
		server := peeragent.NewServer(version(), a.tokens, a.log, apiNames(f.httpHosts, f.http)...)
		if secured != nil {
			operating = tls.NewListener(operating, secured.Config())
		}
		go server.Serve(operating)
		a.servers = append(a.servers, server)
	}
	if health != nil {
		server := peeragent.NewHealthServer(a.log)
		go server.Serve(health)
		a.servers = append(a.servers, server)
	}
	return nil
}

// wait prints events and runs hooks until a signal ends the node.
func (a *peerRun) wait(operating net.Listener, signals <-chan os.Signal) error {
	defer resident.Keep(a.log)()
	printed, hooked := make(chan struct{}), make(chan struct{})
	lasts, ends := context.WithCancel(context.Background())
	defer ends()
	go func() {
		defer close(printed)
		a.print(lasts, peeragent.Ready(a.node.Status(), cli.Shown(operating)))
	}()
	go func() {
		defer close(hooked)
		if h := a.flags.hooks(a.log); h.Any() {
			h.Follow(a.node)
		}
	}()
	for s := range signals {
		if s == syscall.SIGHUP {
			if err := errors.Join(a.node.Reload(), a.tokens.Reload()); err != nil {
				a.log.Error("reload failed in part: a file with an error is used as it was read before, but a line of --http-token-file with an error permits nothing; fix it and send SIGHUP again", "error", err)
			} else {
				a.log.Info("files are reloaded")
			}
		} else if s != syscall.SIGPIPE {
			a.log.Info("this node leaves", "signal", s.String())
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	err := a.node.Close()
	a.endHTTP()
	ends()
	for _, done := range []chan struct{}{printed, hooked} {
		select {
		case <-done:
		case <-ctx.Done(): // our events have no reader, or a hook takes its time
		}
	}
	return err
}

func (a *peerRun) print(ctx context.Context, ready peeragent.Line) {
	short := cli.IsTerminal(a.Stdout)
	write := func(l peeragent.Line, w io.Writer) error { return l.WriteText(w, short) }
	switch a.flags.output.Events {
	case "off":
		return
	case "json":
		write = peeragent.Line.WriteJSON
	}
	out := follow.Lines(a.Stdout)
	write(ready, out) // if that fails, so do the events
	follow.Print(ctx, a.log, superpeer.ErrBehind, a.node.Watch, func(ev superpeer.Event, err error) error {
		if err != nil {
			return write(peeragent.BehindLine(a.node.ID(), time.Now()), out)
		}
		return write(peeragent.LineOf(a.node.ID(), ev), out)
	})
}

func newSuperpeersCommand(e cli.Env) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "superpeer",
		Aliases: []string{"superpeers"},
		Short:   "Elect many leaders in a large overlay",
		Long: `Super peers: elections in systems where one leader is not enough. agent runs a
node on this machine; status, watch and map ask one. "batuta sim superpeers" simulates
many nodes, "batuta bench superpeers" runs them in one process.`,
		Example: `  batuta superpeer agent --id a --fraction 0.02 --capacity 100
  batuta superpeer status`,
	}, newSuperpeerAgentCommand(e), newSuperpeerStatusCommand(e), newSuperpeerWatchCommand(e), newSuperpeerMapCommand(e),
		cli.Earlier("live", simulate.NewLiveCommand(e)), cli.Earlier("simulate", simulate.NewSuperpeersCommand(e)))
}

// newPeerAsking makes a command that asks a super peer's agent, which is where that is by default.
func newPeerAsking(e cli.Env, cmd *cobra.Command, do func(context.Context, *ask.Command, *api.Client) error) *cobra.Command {
	e.Agent = defaultPeerHTTP
	cmd = ask.New(e, cmd, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		c.SuperPeers = true
		return do(ctx, a, c)
	})
	cmd.Annotations = nil // the system's file is of a member of an election
	cmd.Flags().Lookup("agent").Usage = "`HOST:PORT` or unix:PATH of a node's HTTP API, as in its ready event (default " + defaultPeerHTTP + ")"
	return cmd
}

func newSuperpeerStatusCommand(e cli.Env) *cobra.Command {
	return newPeerAsking(e, &cobra.Command{
		Use:   "status",
		Short: "Show a node's view of its overlay and of what super peers must meet",
		Example: `  batuta superpeer status
  batuta superpeer status --agent 127.0.0.1:7701 --json`,
	}, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		return ask.Get(ctx, a, c, "/v1/status", func(s superpeer.Status) error { return printPeer(a.Stdout, &s) })
	})
}

func printPeer(w io.Writer, s *superpeer.Status) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "node\t%s at %s, overlay %s\n", s.ID, s.Address, s.Overlay)
	switch {
	case s.SuperPeer && s.Token == nil:
		fmt.Fprintf(out, "super peer\tyes, serves %d\n", s.Clients)
	case s.SuperPeer:
		fmt.Fprintf(out, "super peer\tyes, token %d, version %d, serves %d\n", *s.Token, s.Version, s.Clients)
	case s.HomeID == nil:
		fmt.Fprintf(out, "super peer\tno, and none serves it\n")
	case s.RTTms == nil:
		fmt.Fprintf(out, "served by\t%s at %s\n", *s.HomeID, s.HomeAddress)
	default:
		fmt.Fprintf(out, "served by\t%s at %s, %.1f ms away\n", *s.HomeID, s.HomeAddress, *s.RTTms)
	}
	encrypted := "not encrypted: any process that can reach the port can take part"
	if s.Encrypted {
		encrypted = "encrypted by the secret"
	}
	fmt.Fprintf(out, "overlay\t%d nodes, method %s, %s\n", s.Nodes, s.Method, encrypted)
	for _, w := range s.Warnings {
		fmt.Fprintf(out, "WARNING\t%s\n", w)
	}
	r := &s.Requirements
	for i, x := range []struct {
		name string
		superpeer.Requirement
	}{{"low latency", r.Latency}, {"spread evenly", r.Spread}, {"predefined share", r.Share}, {"bounded load", r.Capacity}} {
		mark := "holds"
		if !x.Holds {
			mark = "NOT YET"
		}
		fmt.Fprintf(out, "%d %s\t%s: %s\n", i+1, x.name, mark, x.Says)
	}
	return out.Flush()
}

func newSuperpeerWatchCommand(e cli.Env) *cobra.Command {
	return newPeerAsking(e, &cobra.Command{
		Use:   "watch",
		Short: "Print what happens to a node, first what holds now, until interrupted",
		Example: `  batuta superpeer watch
  batuta superpeer watch --agent 127.0.0.1:7701 --json | jq .home`,
	}, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		short := cli.IsTerminal(e.Stdout)
		return c.Watch(ctx, nil, ask.Each(a, func(l peeragent.Line) error { return l.WriteText(a.Stdout, short) }))
	})
}

func newSuperpeerMapCommand(e cli.Env) *cobra.Command {
	return newPeerAsking(e, &cobra.Command{
		Use:   "map",
		Short: "Draw which super peer serves which nodes",
		Long: `map asks one node, which asks all super peers for their clients, and draws them as SVG:
nodes where their coordinates put them, each joined to its super peer. With
--json it prints the same as data, round trips as they were measured. An ordinary
node of --membership core knows 32 super peers at most: ask a super peer for all.`,
		Example: `  batuta superpeer map --agent 127.0.0.1:7701 > overlay.svg
  batuta superpeer map --json | jq '.super_peers[] | {id, clients: (.clients | length)}'`,
	}, func(ctx context.Context, a *ask.Command, c *api.Client) error {
		return ask.Get(ctx, a, c, "/v1/map", func(chart peeragent.Chart) error { return chart.WriteSVG(a.Stdout) })
	})
}
