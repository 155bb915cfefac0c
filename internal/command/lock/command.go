// Package lock runs a command while a named election is held through an agent that runs already.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/command/cli"
	runner "github.com/batuta-dev/batuta/internal/command/run"
)

const long = `lock runs COMMAND while this machine holds the named election NAME, through the agent that runs
here already. Others that lock NAME wait, on this machine and on all others of the cluster.

COMMAND runs in a process group of its own, with BATUTA_ID, BATUTA_ELECTION, BATUTA_EPOCH and
BATUTA_TOKEN in its environment, and no shell in between. When the election is lost, the whole
group gets SIGTERM, and SIGKILL after --grace. Only then another holds it. When batuta itself is
killed, a guard process kills the group at once, and the election is free after --grace and 2 s.

The exit code is that of COMMAND, or 128 and the signal that ended it. Otherwise it is 3 where
--try finds the election held or --timeout passes, 4 where no agent answers, and 1 where the
election was lost while COMMAND ran.

With best effort two may hold an election at once, for example in a partition. With
--algorithm quorum at the agents they never do.`

const example = `  # a migration, from one machine at a time
  batuta lock migrate -- ./migrate --all

  # give up at once where another holds it
  batuta lock --try nightly -- ./report || test $? = 3

  # at most three machines at a time
  batuta lock --seats 3 --timeout 10m deploy -- ./restart`

// options are the flags and arguments.
type options struct {
	try     bool
	timeout time.Duration
	grace   time.Duration
	seats   int
	name    string
	argv    []string
	guard   []string
	stderr  io.Writer
}

// NewCommand makes "batuta lock" without what it needs to find an agent. guard is the command line of a guard. The
// caller sets RunE to what calls run.
func NewCommand(guard []string, stderr io.Writer) (cmd *cobra.Command, run func(ctx context.Context, a Agent) error) {
	o := &options{guard: guard, stderr: stderr}
	cmd = &cobra.Command{
		Use:     "lock NAME [flags] -- COMMAND [ARG…]",
		Short:   "Run a command while holding an election",
		Long:    long,
		Example: example,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || cmd.ArgsLenAtDash() != 1 && len(args) > 1 {
				return cli.Usagef("write the name of the election, then --, then the command, as in: batuta lock NAME -- ./worker")
			}
			o.name, o.argv = args[0], args[1:]
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.try, "try", false, "end with exit code 3 where the election is held")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "wait for `DURATION` at most, then end with exit code 3 (default without limit)")
	cmd.Flags().DurationVar(&o.grace, "grace", 5*time.Second, "`DURATION` from SIGTERM to SIGKILL")
	cmd.Flags().IntVar(&o.seats, "seats", 1, "`N` agents hold the election at once, each under a token of its own")
	cli.ByHand(cmd.Flags(), "seats")
	return cmd, o.run
}

// after a loss the command has its grace, and this to be reaped and reported.
const margin = 2 * time.Second

func (o *options) check() error {
	switch {
	case len(o.argv) == 0:
		return cli.Usagef("which command? write it after --, as in: batuta lock %s -- ./worker", o.name)
	case o.timeout < 0:
		return cli.Usagef("--timeout %v is negative: leave it out to wait without limit", o.timeout)
	case o.try && o.timeout > 0:
		return cli.Usagef("--try does not wait, and goes without --timeout: leave one out")
	case o.grace < 0 || o.grace+margin > candidacy.MaxTTL:
		return cli.Usagef("--grace %v: give 0s to %v", o.grace, candidacy.MaxTTL-margin)
	}
	if _, err := exec.LookPath(o.argv[0]); err != nil {
		return cli.Usagef("command %w; give its path, or one that is in PATH", err)
	}
	return nil
}

// run holds the election through agent, and runs the command.
func (o *options) run(ctx context.Context, agent Agent) error {
	if err := o.check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(signals)
	log := slog.New(slog.NewTextHandler(o.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r, err := runner.New(runner.Config{Argv: o.argv, Grace: o.grace, Notice: runner.NamedNotice, T: time.Second, Program: self, Guard: o.guard, Logger: log})
	if err != nil {
		return err
	}
	defer r.Close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	over := make(chan struct{})
	defer close(over)
	go pass(ctx, signals, r, stop, over)
	h := &holder{agent: agent, name: o.name, ttl: max(o.grace, time.Second) + margin, seats: o.seats, lose: stop}
	defer h.goodbye()
	first, err := o.hold(ctx, h)
	if err != nil {
		return err
	}
	id, l := leadership(first)
	outcome, err := r.Once(ctx, id, l, every(first), h.lease)
	return o.ended(ctx, outcome, err)
}

// hold waits for the election.
func (o *options) hold(ctx context.Context, h *holder) (candidacy.Turn, error) {
	within, cancel := ctx, func() {}
	if o.timeout > 0 {
		within, cancel = context.WithTimeout(ctx, o.timeout)
	}
	defer cancel()
	a, err := h.wait(within, o.try)
	stopped, byHand := errors.AsType[runner.StopSignal](context.Cause(ctx))
	switch {
	case byHand:
		return a, cli.Ended(128 + int(stopped.Signal))
	case errors.Is(err, errHeld):
		return a, cli.Exit(cli.NoLeader, err)
	case errors.Is(err, context.DeadlineExceeded) && within.Err() != nil:
		return a, cli.Exit(cli.NoLeader, fmt.Errorf("election %q was not free within %v: try again later, or give a longer --timeout", o.name, o.timeout))
	}
	return a, err
}

// ended gives the command's own end, unless the election was lost before.
func (o *options) ended(ctx context.Context, outcome runner.Outcome, err error) error {
	cause := context.Cause(ctx)
	_, byHand := errors.AsType[runner.StopSignal](cause)
	switch {
	case err != nil:
		return cli.Exit(cli.Failed, err)
	case outcome.Expired:
		return cli.Exit(cli.Failed, fmt.Errorf("the command was killed: the lease of election %q was not renewed in time", o.name))
	case cause != nil && !byHand:
		return cli.Exit(cli.Failed, fmt.Errorf("the command was stopped: %w", cause))
	case outcome.Signal != 0:
		return cli.Ended(128 + int(outcome.Signal))
	case outcome.Code != 0:
		return cli.Ended(outcome.Code)
	}
	return nil
}

// goodbye gives the election away; an agent that does not answer does so by itself.
func (h *holder) goodbye() {
	ctx, cancel := context.WithTimeout(context.Background(), margin)
	defer cancel()
	h.end(ctx)
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
}

// pass hands signals on: those that end batuta stop the command, and the second kills it.
func pass(ctx context.Context, signals <-chan os.Signal, r *runner.Runner, stop context.CancelCauseFunc, over <-chan struct{}) {
	for {
		var s syscall.Signal
		select {
		case got := <-signals:
			s, _ = got.(syscall.Signal)
		case <-over:
			return
		}
		switch {
		case s != syscall.SIGINT && s != syscall.SIGTERM:
			r.Signal(s)
		case ctx.Err() != nil:
			r.Kill()
		default:
			stop(runner.StopSignal{Signal: s})
		}
	}
}

// every is the time between two renewals.
func every(a candidacy.Turn) time.Duration {
	d := time.Duration(a.ValidMS) * time.Millisecond / 4
	if a.LeaseMS > 0 {
		d = time.Duration(a.LeaseMS) * time.Millisecond / 8
	}
	return min(max(d, 20*time.Millisecond), pollEvery)
}
