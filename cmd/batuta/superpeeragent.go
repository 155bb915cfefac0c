package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/peeragent"
	"github.com/batuta-dev/batuta/internal/command/resident"
	"github.com/batuta-dev/batuta/internal/follow"
	rules "github.com/batuta-dev/batuta/internal/superpeer"
	"github.com/batuta-dev/batuta/superpeer"
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
	fs.StringVar(&c.Overlay, "cluster", "default", "`name` of the overlay; nodes of another are refused")
	fs.StringVar(&c.ID, "id", "", "this node's `name` for people (default drawn at random)")
	fs.StringVar(&c.Listen, "listen", superpeer.DefaultListen, "`host:port`, UDP and TCP, where nodes reach it; port 0 picks one")
	fs.StringVar(&c.Advertise, "advertise", "", "`host:port` it tells the others (default the listen address)")
	fs.StringSliceVar(&c.Join, "join", nil, "`host:port` of any node to join through; repeatable; none: it founds the overlay")
	fs.Float64Var(&c.Fraction, "fraction", superpeer.DefaultFraction, "`share` of the nodes that shall be super peers; the same on all")
	fs.IntVar(&c.Capacity, "capacity", 0, "most `nodes` that one super peer serves, itself not counted; 0 for no limit; the same on all")
	fs.StringVar(&f.method, "method", string(rules.Tokens), "tokens, textbook, prefix, prefix-exact or random; the same on all")
	fs.StringVar(&f.members, "membership", string(superpeer.MembershipFull), "full: every node knows all; core: super peers know each other, the others a few of them, for thousands of nodes; the same on all")
	fs.DurationVar(&c.Round, "round", superpeer.DefaultRound, "how often a node acts: more than twice the longest round trip; the same on all")
	fs.StringVar(&c.Service, "service", "", "`text` told to the others of this node's service, such as its HOST:PORT")
	fs.StringVar(&c.Secret, "secret-file", "", "`file` with the cluster's shared secret, as 'batuta secret new' prints it: all that is sent is encrypted")
	fs.BoolVar(&c.Insecure, "insecure", false, "serve addresses beyond loopback although nobody there has to prove anything")
	fs.StringVar(&f.http, "http", defaultPeerHTTP, "`host:port` of the HTTP API, unix:PATH, or off; where it is not given and the default is taken, any free port")
	fs.StringSliceVar(&f.httpHosts, "http-host", nil, "`name` under which the API may be asked, beside localhost and IP addresses; repeatable")
	fs.StringVar(&f.security.httpTokens, "http-token-file", "", "`file` of tokens for the HTTP API, one a line with its role, read or operate")
	fs.StringVar(&f.security.httpCert, "http-tls-cert", "", "`file` with the HTTP API's certificate (default one by the secret)")
	fs.StringVar(&f.security.httpKey, "http-tls-key", "", "`file` with that certificate's key")
	fs.StringVar(&f.security.healthHTTP, "health-http", "", "`host:port` that answers /super, /healthz and /readyz alone, by yes or no, for whoever asks")
	f.hook.Register(fs,
		"on-super", "`command` to run when this node becomes a super peer; no shell reads it, BATUTA_ variables tell what happened",
		"on-client", "`command` to run when a super peer serves it, the first or another: BATUTA_HOME, BATUTA_ADDRESS, BATUTA_SERVICE")
	f.output.Register(fs, "text")
}

// check finds every flag that cannot stand before anything starts.
func (f *peerFlags) check() error {
	f.config.Method, f.config.Membership = rules.Method(f.method), superpeer.Membership(f.members)
	f.security.secretFile, f.security.insecure = f.config.Secret, f.config.Insecure
	if f.config.Fraction == 0 {
		return cli.Usagef("--fraction 0: want more than 0 and at most 1")
	}
	if err := f.config.Validate(); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if (f.security.httpCert == "") != (f.security.httpKey == "") {
		return cli.Usagef("--http-tls-cert and --http-tls-key go together: give both")
	}
	if err := f.security.checkHTTP(f.http); err != nil {
		return err
	}
	if f.security.healthHTTP != "" {
		if err := checkAddress("--health-http", f.security.healthHTTP); err != nil {
			return err
		}
	}
	return cmp.Or(f.hook.Check(), f.output.Check())
}

func (f *peerFlags) hooks(log *slog.Logger) *peeragent.Hooks {
	return &peeragent.Hooks{OnSuper: f.hook.Words("on-super"), OnClient: f.hook.Words("on-client"), Timeout: f.hook.Timeout, Log: log}
}

func newSuperpeerAgentCommand(e env) *cobra.Command {
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

  # on a network, with a hook that tells the service whose client it is
  batuta superpeer agent --listen 10.0.0.7:7600 --join 10.0.0.1:7600 --secret-file secret \
    --fraction 0.02 --capacity 100 --on-client /usr/local/bin/reconnect`,
		Args: cobra.NoArgs,
	}
	f.register(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		a := &peerRun{env: e, flags: &f, cmd: cmd}
		return a.run(cmd.Context())
	}
	return cmd
}

// peerRun is one process of "superpeer agent".
type peerRun struct {
	env
	flags *peerFlags
	cmd   *cobra.Command
	log   *slog.Logger
	node  *superpeer.Member

	tokens *api.Tokens
	ends   []func(context.Context)
}

func (a *peerRun) run(ctx context.Context) error {
	signals := make(chan os.Signal, 4) // caught before anything is announced
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	defer signal.Stop(signals)
	log, err := a.flags.output.Open(a.stderr)
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
	joined, err := a.join(ctx, signals)
	if err != nil || !joined {
		return err
	}
	if err := a.serve(operating, health); err != nil {
		return errors.Join(err, a.node.Close())
	}
	return a.wait(operating, signals)
}

// join tries until another answers or a signal comes.
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

// serve answers on the listeners that there are.
func (a *peerRun) serve(operating, health net.Listener) (err error) {
	f := a.flags
	if f.security.httpTokens != "" {
		if a.tokens, err = api.LoadTokens(f.security.httpTokens); err != nil {
			return cli.Exit(cli.Usage, err)
		}
	}
	if operating != nil {
		names := slices.Clone(f.httpHosts)
		if host, _, err := net.SplitHostPort(f.http); err == nil && host != "" {
			names = append(names, host)
		}
		secured, err := f.security.serving(f.config.Overlay, a.node.ID(), f.http)
		if err != nil {
			return cli.Exit(cli.Usage, err)
		}
		server := peeragent.NewServer(a.node, version(), a.tokens, a.log, names...)
		if secured != nil {
			operating = tls.NewListener(operating, secured.Config())
		}
		go server.Serve(operating)
		a.ends = append(a.ends, server.Close)
	}
	if health != nil {
		server := peeragent.NewHealthServer(a.node, a.log)
		go server.Serve(health)
		a.ends = append(a.ends, server.Close)
	}
	return nil
}

// wait prints events and runs hooks until a signal ends the node.
func (a *peerRun) wait(operating net.Listener, signals <-chan os.Signal) error {
	defer resident.Keep(a.log)()
	printed, hooked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(printed)
		a.print(peeragent.Ready(a.node.Status(), cli.Shown(operating)))
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
				a.log.Error("reload failed in part: a file with an error is used as it was read before; fix it and send SIGHUP again", "error", err)
			}
		} else if s != syscall.SIGPIPE {
			a.log.Info("leaving", "signal", s.String())
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	err := a.node.Close()
	for _, end := range a.ends {
		end(ctx)
	}
	for _, done := range []chan struct{}{printed, hooked} {
		select {
		case <-done:
		case <-ctx.Done(): // nobody reads our events, or a hook takes its time
		}
	}
	return err
}

func (a *peerRun) print(ready peeragent.Line) {
	write := peeragent.Line.WriteText
	switch a.flags.output.Events {
	case "off":
		return
	case "json":
		write = peeragent.Line.WriteJSON
	}
	unread := write(ready, a.stdout)
	for ev, err := range follow.On(context.Background(), superpeer.ErrBehind, a.node.Watch) {
		if unread != nil {
			a.log.Warn("events are not printed any more: nobody reads them", "error", unread)
			return
		}
		l := peeragent.LineOf(a.node.ID(), ev)
		if err != nil {
			a.log.Warn(tooSlow)
			l = peeragent.BehindLine(a.node.ID(), time.Now())
		}
		unread = write(l, a.stdout)
	}
}
