// Package lock runs a command while a named election is held through an agent that runs already.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/command/cli"
	runner "github.com/batuta-dev/batuta/internal/work/run"
	"github.com/spf13/cobra"
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
	return cli.CheckName(o.name)
}

// run holds the election through agent, and runs the command.
func (o *options) run(ctx context.Context, agent Agent) error {
	if err := o.check(); err != nil {
		return err
	}
	self, err := runner.Self()
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, cli.Caught(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2)...)
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
	var held atomic.Bool
	go pass(ctx, signals, r, &held, stop, over)
	h := &holder{agent: agent, name: o.name, ttl: max(o.grace, time.Second) + margin, seats: o.seats, lose: stop}
	defer h.goodbye()
	first, err := o.hold(ctx, h)
	if err != nil {
		return err
	}
	held.Store(true)
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
	case outcome.Unbegun:
		return cli.Exit(cli.Failed, fmt.Errorf("the command was not started: the lease of election %q was not renewed in time", o.name))
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

// pass hands signals on: those that end batuta stop the command, and the second kills it. Before the election is held
// there is no command, and SIGHUP ends batuta too.
func pass(ctx context.Context, signals <-chan os.Signal, r *runner.Runner, held *atomic.Bool, stop context.CancelCauseFunc, over <-chan struct{}) {
	for {
		var s syscall.Signal
		select {
		case got := <-signals:
			s, _ = got.(syscall.Signal)
		case <-over:
			return
		}
		switch {
		case s != syscall.SIGINT && s != syscall.SIGTERM && (s != syscall.SIGHUP || held.Load()):
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

// pollEvery is how often a candidacy is renewed that waits.
const pollEvery = 250 * time.Millisecond

// Agent is what a holder needs of an [api.Client].
type Agent interface {
	Stand(ctx context.Context, election string, ask candidacy.Request) (candidacy.Turn, error)
	EndCandidacy(ctx context.Context, election, id string) error
}

// errHeld is why --try ends: the election is held.
var errHeld = errors.New("held")

// holder holds an election through an agent, by a lease.
type holder struct {
	agent Agent
	name  string
	ttl   time.Duration
	seats int
	lose  context.CancelCauseFunc // ends the command

	mu    sync.Mutex
	id    string    // of the candidacy
	until time.Time // the last answer holds, in which a call may go without one
	over  bool      // it begins none any more
}

// wait returns once the election is held. try: it returns [errHeld] where it is held already.
func (h *holder) wait(ctx context.Context, try bool) (candidacy.Turn, error) {
	for began := time.Now(); ; {
		a, err := h.renew(ctx)
		switch {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case err != nil && !h.hung(err) && !h.forgets(err):
			return a, err
		case err != nil: // it asks again; what is forgotten: this process was stopped for longer than its ttl
		case a.State == candidacy.Leading && a.ValidMS > 0:
			return a, nil
		case a.State == candidacy.Lost:
			if err := h.end(ctx); err != nil { // nothing runs yet
				return a, err
			}
		case try && a.HeldBy != "":
			return a, fmt.Errorf("%w: member %s leads election %q, or another command waits: try again later, or leave out --try", errHeld, a.HeldBy, h.name)
		case try && time.Since(began) > batuta.TryTimeout:
			return a, fmt.Errorf("%w: election %q was not given to this agent within %v: try again later, or leave out --try", errHeld, h.name, batuta.TryTimeout)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollEvery):
		}
	}
}

// forgets drops a candidacy that the agent does not have any more; false: that is not the error.
func (h *holder) forgets(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.id != "" && answered(err) == http.StatusNotFound
	if known {
		h.id, h.until = "", time.Time{}
	}
	return known
}

// answered is the code of an agent's refusal; 0: it is none.
func answered(err error) int {
	if answer, ok := errors.AsType[*api.AnswerError](err); ok {
		return answer.Code
	}
	return 0
}

// hung reports whether a call went without an answer while the last answer still holds: there is time to ask again.
func (h *holder) hung(err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout() && time.Now().Before(h.until)
}

// renew renews the candidacy, or begins it. A call takes half of what is left: it may be only the connection that hangs.
func (h *holder) renew(ctx context.Context) (candidacy.Turn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return candidacy.Turn{}, context.Canceled
	}
	asked := time.Now()
	ask := candidacy.Request{TTL: h.ttl.String(), Candidacy: h.id}
	if h.id == "" {
		ask.Seats = h.seats
	}
	if h.until.IsZero() {
		h.until = asked.Add(h.ttl)
	}
	ctx, cancel := context.WithTimeout(ctx, max(h.until.Sub(asked)/2, 50*time.Millisecond))
	defer cancel()
	a, err := h.agent.Stand(ctx, h.name, ask)
	if err == nil {
		h.id, h.until = a.Candidacy, asked.Add(h.ttl)
	}
	if err == nil && a.State == candidacy.Leading && a.ValidMS > 0 {
		h.until = asked.Add(time.Duration(a.ValidMS) * time.Millisecond)
	}
	return a, refusal(err)
}

// lease renews for the command that runs. A loss ends the command.
func (h *holder) lease() (left, whole time.Duration, ok bool) {
	a, err := h.renew(context.Background())
	switch {
	case answered(err) == http.StatusServiceUnavailable, h.hung(err): // its member is stuck for a moment, or a connection
		return 0, 0, false
	case err != nil:
		h.lose(fmt.Errorf("election %q is lost: %w", h.name, err))
		return 0, 0, false
	case a.State == candidacy.Lost:
		h.lose(fmt.Errorf("election %q is lost: %s", h.name, a.Cause))
	case a.State != candidacy.Leading:
		h.lose(fmt.Errorf("election %q is lost: its candidacy has ended", h.name))
		return 0, 0, false
	}
	return time.Duration(a.ValidMS) * time.Millisecond, time.Duration(a.LeaseMS) * time.Millisecond, a.ValidMS > 0
}

// end gives the election away, or acknowledges its loss: nothing of the command is left.
func (h *holder) end(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.id == "" {
		return nil
	}
	err := h.agent.EndCandidacy(ctx, h.name, h.id)
	if answered(err) == http.StatusNotFound {
		err = nil // it has ended already
	}
	h.id, h.until = "", time.Time{}
	return refusal(err)
}

// refusal gives an agent's refusal its exit code: it is no sign that the election is held.
func refusal(err error) error {
	switch answered(err) {
	case 0:
		return err
	case http.StatusConflict, http.StatusBadRequest:
		return cli.Exit(cli.Usage, err)
	}
	return cli.Exit(cli.Failed, err)
}

// leadership is what the command finds in its environment.
func leadership(a candidacy.Turn) (batuta.ID, batuta.Leadership) {
	l := batuta.Leadership{Election: a.Election, Since: time.Now(), Fencing: a.LeaseMS > 0}
	if a.Token == nil {
		return "", l
	}
	epoch, id, _ := strings.Cut(*a.Token, ":")
	l.Token.Epoch, _ = strconv.ParseUint(epoch, 10, 64)
	l.Token.Leader.ID = batuta.ID(id)
	return l.Token.Leader.ID, l
}
