package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutaprom/exposition"
	"github.com/batuta-dev/batuta/engines"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/podlabel"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/batuta-dev/batuta/internal/work/run"
)

func newAgentCommand(e env) *cobra.Command {
	c := &candidate{env: e}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Be a candidate, with HTTP, hooks and metrics",
		Long: `agent is a candidate until SIGTERM or SIGINT. Then it hands leadership over, if it leads, and
ends with exit code 0. Events go to standard output, logs to standard error. Its HTTP
API, metrics and hooks are those of "batuta agent".`,
		Example: `  batuta-engine agent --etcd 127.0.0.1:2379 --id 1
  batuta-engine agent --postgres postgres://db.example/app --election db --on-lead ./promote --on-lose ./demote`,
		Args: cobra.NoArgs,
	}
	c.flags.register(cmd.Flags(), "text")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return c.run(cmd) }
	return cmd
}

func newRunCommand(e env) *cobra.Command {
	c := &candidate{env: e}
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG…]",
		Short: "Run a command only while this candidate leads",
		Long: `run is a candidate, and runs COMMAND only while it leads: in a process group of its own,
with BATUTA_ID, BATUTA_ELECTION, BATUTA_EPOCH and BATUTA_TOKEN in its environment, and
no shell in between.

When leadership is lost, the whole group gets SIGTERM, and SIGKILL after --grace. Leadership is
given up once all of the group has ended. When the engine does not answer, it gets
SIGTERM at half the lease, and SIGKILL a tenth of it before the end: before another
candidate can lead. When batuta-engine itself is killed, a guard process kills the group at once.

When COMMAND ends with exit code 0, so does batuta-engine (with --restart it starts COMMAND
again). When COMMAND fails, another candidate may try, and this one is a candidate again after a
pause that doubles from a second to a minute.`,
		Example: `  # on each of three machines: the worker runs on one of them
  batuta-engine run --etcd 10.0.0.1:2379 --etcd 10.0.0.2:2379 --etcd 10.0.0.3:2379 -- ./worker --verbose`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("which command? write it after the flags, as in: batuta-engine run --etcd 127.0.0.1:2379 -- ./worker")
			}
			return nil
		},
	}
	c.flags.register(cmd.Flags(), "off") // standard output is the command's
	cmd.Flags().DurationVar(&c.grace, "grace", 5*time.Second, "`DURATION` from SIGTERM to SIGKILL")
	cmd.Flags().BoolVar(&c.restart, "restart", false, "start the command again when it ends with exit code 0")
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if c.grace < 0 {
			return cli.Usagef("--grace %v is negative: give 0s to kill at once", c.grace)
		}
		if _, err := exec.LookPath(args[0]); err != nil {
			return cli.Usagef("command %w; give its path, or one that is in PATH", err)
		}
		c.argv = args
		return c.run(cmd)
	}
	return cmd
}

// candidate is the agent of this process.
type candidate struct {
	env
	flags   candidateFlags
	argv    []string // of the command that runs while it leads; nil: an agent without a command
	grace   time.Duration
	restart bool

	log      *slog.Logger
	election *engines.Election
	pod      *podlabel.Pod // nil: it has no labels
	runner   *run.Runner
	beside   sync.WaitGroup // printing and hooks
}

func (c *candidate) run(cmd *cobra.Command) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	if err := c.flags.check(); err != nil {
		return err
	}
	c.flags.engine.lease = c.flags.lease
	log, err := c.flags.output.Open(c.stderr)
	if err != nil {
		return err
	}
	c.log = log
	defer c.flags.output.Close()
	if process, ok := cmd.Context().Value(bereaved{}).(string); ok {
		return c.giveUp(cmd.Context(), process)
	}
	if c.flags.hooks.PodLabel {
		if c.pod, err = podlabel.Own(c.flags.engine.election, c.lookup, c.log); err != nil {
			return err
		}
	}
	listener, err := c.listen(cmd)
	if err != nil {
		return err
	}
	if listener != nil {
		defer listener.Close()
	}
	if err := c.start(cmd.Context()); err != nil {
		return err
	}
	lasts, ends := context.WithCancel(context.Background())
	defer ends()
	endHTTP, err := c.serve(lasts, listener)
	if err == nil {
		err = c.work(signals)
	} else {
		c.election.Close()
	}
	ends()
	c.beside.Wait()
	endHTTP()
	return err
}

// giveUp gives up the leadership of a process that has died, so that no candidate waits for its lease.
func (c *candidate) giveUp(ctx context.Context, process string) error {
	engine, err := c.flags.engine.open()
	if err != nil {
		return err
	}
	defer engine.Close()
	ctx, cancel := context.WithTimeout(ctx, c.flags.lease) // then it has ended by itself
	defer cancel()
	if err := engines.Release(ctx, engine, process); err != nil {
		return err
	}
	c.log.Warn("batuta-engine run has died; its command is dead, and leadership given up")
	return nil
}

// listen opens the listener of the HTTP API; nil: it is off.
func (c *candidate) listen(cmd *cobra.Command) (net.Listener, error) {
	l, err := cli.ListenAPI(c.flags.http, cmd.Flags().Changed("http"))
	if l == nil || err != nil {
		return nil, err
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); ok && !tcp.IP.IsLoopback() && c.flags.httpTokens == "" {
		l.Close()
		return nil, cli.Usagef("--http %s is not loopback: any process that reaches it could make the leader resign; give --http-token-file, or a loopback address", c.flags.http)
	}
	return l, nil
}

// start has the election begin.
func (c *candidate) start(ctx context.Context) error {
	engine, err := c.flags.engine.open()
	if err != nil {
		return err
	}
	config := c.flags.config(c.log)
	config.StandAlways = c.argv == nil
	if err = cli.Exit(cli.Usage, config.Check()); err == nil {
		err = candidateAdmitted(ctx, engine)
	}
	if err != nil {
		engine.Close()
		return err
	}
	if c.election, err = engines.Start(ctx, engine, config); err != nil {
		engine.Close()
		return cli.Exit(cli.Usage, err)
	}
	if c.argv == nil {
		return nil
	}
	self, err := run.Self()
	if err != nil {
		return err
	}
	guard := []string{os.Args[0], "guard"}
	if !c.flags.hooks.Config(c.log).Any() { // what a hook has begun is not the guard's to end
		guard = append(append(guard, c.election.Process()), os.Args[1:]...)
	}
	c.runner, err = run.New(run.Config{Argv: c.argv, Grace: c.grace, Restart: c.restart, Heartbeat: c.flags.lease / 8, T: c.flags.lease,
		Program: self, Guard: guard, Logger: c.log})
	if err != nil {
		c.election.Close()
	}
	return err
}

// candidateAdmitted gives an error if the engine refuses a candidate with the given flags.
func candidateAdmitted(ctx context.Context, engine engines.Engine) error {
	checked, ok := engine.(interface{ check(context.Context) error })
	if !ok {
		return nil
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM) // which also end the work
	defer stop()
	return admitted(ctx, checked.check)
}

// serve answers on the listener, prints events and runs hooks, until the election has ended.
func (c *candidate) serve(lasts context.Context, listener net.Listener) (end func(), err error) {
	end = func() {}
	address := cli.Shown(listener)
	if listener != nil {
		server := api.NewServer(member{c.election}, address, version(), c.log, c.flags.httpHosts...)
		server.Expose(exposition.Handler)
		if c.flags.httpTokens != "" {
			tokens, err := access.Load(c.flags.httpTokens)
			if err != nil {
				return end, cli.Exit(cli.Usage, err)
			}
			server.Authorize(tokens)
		}
		go server.Serve(listener)
		end = func() { server.Close(context.Background()) }
	}
	if c.flags.output.Events != "off" { // events without a reader would be kept forever
		told := c.election.Events(context.Background())
		c.beside.Go(func() {
			status, _ := c.election.Status(context.Background())
			c.print(lasts, api.Ready(time.Now(), status, address), told)
		})
	}
	if h := c.flags.hooks.Config(c.log); h.Any() {
		c.beside.Go(func() { hooks.Follow(c.election, h) })
	}
	if c.pod != nil {
		c.beside.Go(func() { c.pod.Follow(c.election) })
	}
	return end, nil
}

func (c *candidate) print(ctx context.Context, ready api.Line, told iter.Seq2[batuta.Event, error]) {
	out := follow.Lines(c.stdout)
	writeLine(out, c.flags.output.Events, ready) // if that fails, so do the events
	follow.Print(ctx, c.log, batuta.ErrBehind, follow.From(told, c.election.Events), func(ev batuta.Event, err error) error {
		l := api.EventLine(c.election.ID(), ev)
		if err != nil {
			l = api.BehindLine(c.election.ID(), time.Now(), c.election.Leader().Election)
		}
		return writeLine(out, c.flags.output.Events, l)
	})
}

func writeLine(w io.Writer, form string, l api.Line) error {
	if form == "json" {
		return l.WriteJSON(w)
	}
	if l.Event == "ready" {
		http := "off"
		if l.HTTP != "" {
			http = "on " + l.HTTP
		}
		_, err := fmt.Fprintf(w, "%s  ready     candidate %s of election %q on %s, HTTP API %s\n", l.Time.UTC().Format(time.RFC3339Nano), l.ID, l.Election, l.Algorithm, http)
		return err
	}
	return new(api.Text).Write(l, w)
}

// work runs until a signal, or until the command has ended well.
func (c *candidate) work(signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	over := make(chan error, 1)
	if c.runner != nil {
		go func() { over <- c.runner.Run(ctx, c.election) }()
		defer c.runner.Close()
	}
	var err error
	ended := false
	for waiting := true; waiting; {
		select {
		case err = <-over:
			ended, waiting = true, false
		case s := <-signals:
			waiting = c.pass(s)
			if sig, ok := s.(syscall.Signal); ok && !waiting {
				c.log.Info("this candidate leaves", "signal", s.String())
				cancel(run.StopSignal{Signal: sig})
			}
		}
	}
	cancel(nil)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if c.runner != nil && !ended {
			<-over
		}
		c.election.Shutdown(context.Background())
	}()
	return errors.Join(err, c.part(closed, signals))
}

// pass hands on a signal that does not end this process; false if s is not such a signal.
func (c *candidate) pass(s os.Signal) bool {
	switch s {
	case syscall.SIGPIPE:
	case syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2:
		if c.runner != nil {
			c.runner.Signal(s.(syscall.Signal))
		}
	default:
		return false
	}
	return true
}

// part waits for the end; a second signal kills the command, a third signal ends this process.
func (c *candidate) part(closed <-chan struct{}, signals <-chan os.Signal) error {
	began, killed := time.Now(), c.runner == nil
	for {
		select {
		case <-closed:
			return nil
		case s := <-signals:
			switch {
			case s != os.Interrupt && s != syscall.SIGTERM:
			case time.Since(began) < time.Second: // the same signal, received twice
			case !killed:
				killed = true
				c.runner.Kill()
			default:
				return errors.New("signalled twice: ended without handing over")
			}
		}
	}
}

// member is an election as the API wants it.
type member struct{ *engines.Election }

var errMembers = errors.New("an election on an engine has no list of members: each process that names it takes part")

func (member) AskMembers(context.Context) ([]batuta.MemberView, error) {
	return nil, fmt.Errorf("%w: %w", errors.ErrUnsupported, errMembers)
}

func (member) AddMember(context.Context, batuta.Peer) error { return errMembers }

func (member) SetPriority(context.Context, batuta.ID, int) error { return errMembers }

func (member) RemoveMember(context.Context, batuta.ID) error { return errMembers }

func (member) Transfer(context.Context, batuta.ID) error {
	return fmt.Errorf("%w: on an engine leadership is not handed over by name; resign, and the first candidate that claims it leads", batuta.ErrUnfit)
}

// release is the version of a release's build (-ldflags "-X main.release=…").
var release string

func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
