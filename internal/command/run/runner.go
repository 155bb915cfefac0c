package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/schedule"
)

// Bounds of the pause after a failure, and how long a command must have run for
// its failure to count as the first.
const (
	firstPause = time.Second
	maxPause   = time.Minute
	longEnough = time.Minute
)

// Node is what a Runner needs of a [batuta.Node], or of an election that is held otherwise.
type Node interface {
	ID() batuta.ID
	Lead(ctx context.Context, fn func(ctx context.Context, l batuta.Leadership) error) error
	Leader() batuta.View
	IsLeader() bool
	Lease(ctx context.Context) (batuta.Lease, error)
	SetHealth(ctx context.Context, err error) error
	Done() <-chan struct{}
}

// Config sets up a [Runner].
type Config struct {
	Argv      []string      // the command and its arguments
	Grace     time.Duration // from SIGTERM to SIGKILL
	Last      time.Duration // the same when the lease has ended, or this process; default 0: SIGKILL at once; within the lease of a leadership that has one
	Clear     func() error  // takes away what a run may have left that was killed; called before another member may lead; nil: nothing is left
	Finish    time.Duration // for which a run by Plan may go on once its election is to be handed over; default 0: it is asked to end at once
	Restart   bool          // a command that ends with exit code 0 is started again
	Plan      *Plan         // when the command runs; nil: at once, for as long as the member leads
	Heartbeat time.Duration // of the node
	T         time.Duration // silence after which the node is suspected
	Program   string        // path of this program
	Guard     []string      // command line by which it becomes a guard
	Guards    *Guards       // shared with other runners, in place of Program and Guard; default: a guard of its own
	Name      string        // what each line begins with that the command writes; default: it writes by itself
	Notice    int           // the command is asked to end this part of a lease before its end: 4 for a quarter; default 2
	Pause     time.Duration // after the first failure; default 1 s, doubled each time up to a minute
	Logger    *slog.Logger

	// Serve returns what the environment of the command has beside a leadership, and what to call when that has
	// ended; nil: nothing.
	Serve func(context.Context, batuta.Leadership) (set []string, end func(), err error)
}

// Runner runs a command while a node leads.
type Runner struct {
	cfg     Config
	keeper  keeper
	pause   time.Duration    // after the next failure
	ticks   *schedule.Ticker // nil: there is no plan, or no leadership yet
	journal Journal          // of the plan; nil: none

	run context.Context // Run's

	over   bool  // why the last run was the last under its leadership,
	failed error // whatever has become of that: it has ended well, or failed
}

// New prepares a Runner, and starts its guard. The caller must call Run or Close.
func New(c Config) (*Runner, error) {
	if c.Pause == 0 {
		c.Pause = firstPause
	}
	if c.Notice == 0 {
		c.Notice = 2
	}
	r := &Runner{cfg: c, keeper: keeper{starter: starter{program: c.Program, argv: c.Guard, stdin: true}, pool: c.Guards, log: c.Logger}, pause: c.Pause}
	if len(c.Argv) > 0 && c.Logger != nil {
		warnOfOtherUser(c.Argv[0], c.Logger)
	}
	if c.Guards != nil {
		return r, nil
	}
	_, err := r.keeper.ready()
	return r, err
}

// Close ends the guard. Nothing must run any more.
func (r *Runner) Close() { r.keeper.close() }

// Signal passes s on to the command, if it runs.
func (r *Runner) Signal(s syscall.Signal) { r.keeper.signal(s) }

// Kill kills the command, if it runs, without further grace.
func (r *Runner) Kill() { r.keeper.kill() }

// lease is how long a command outlives a node that has got stuck. The others can
// name another leader T after the last beat they have heard, which may be a
// heartbeat older than the last renewal.
func (r *Runner) lease() time.Duration {
	return max(r.cfg.T-r.cfg.Heartbeat, r.cfg.T/2)
}

// Run runs the command once per leadership of node. It returns nil when the
// command has ended well (unless Restart is set) or when ctx has ended, and the
// node's error when that has. By then nothing of the command is left; when ctx
// ends it is stopped by its [StopSignal].
func (r *Runner) Run(ctx context.Context, node Node) error {
	r.run = ctx
	for {
		leading, cancel := context.WithCancel(ctx)
		r.failed = nil
		err := node.Lead(leading, func(ctx context.Context, l batuta.Leadership) error {
			r.lead(ctx, node, l)
			if r.failed != nil {
				node.SetHealth(r.run, fmt.Errorf("its command failed: %w", r.failed)) // not ctx: a lost leadership ends that
			}
			if r.over || r.failed != nil {
				cancel()
			}
			return nil
		})
		cancel()
		switch {
		case r.over || ctx.Err() != nil:
			return nil
		case r.failed == nil:
			return err
		}
		pause := r.nextPause()
		r.cfg.Logger.Error("the command failed; another may try", "error", r.failed, "pause", pause)
		r.wait(ctx, node, pause)
		node.SetHealth(ctx, nil)
	}
}

// lead runs the command as long as this leadership lasts, or until it is over or
// has failed.
func (r *Runner) lead(ctx context.Context, node Node, l batuta.Leadership) {
	lease, err := node.Lease(ctx)
	if err != nil {
		return // it has been lost meanwhile
	}
	command := &Command{Argv: r.cfg.Argv, Env: Environment(environment(WithoutMeta(os.Environ()), node.ID(), l), MetaVariables(metaOf(node))...), Grace: r.cfg.Grace, Last: r.cfg.Last, Name: r.cfg.Name}
	if r.cfg.Serve != nil {
		set, end, err := r.cfg.Serve(ctx, l)
		if err != nil {
			r.failed = err
			return
		}
		defer end()
		command.Env = Environment(command.Env, set...)
	}
	ticks, env := r.ticker(node), command.Env
	for {
		if ticks != nil {
			tick, err := ticks.Await(ctx)
			if err != nil {
				r.untimely(ctx, err)
				return
			}
			command.Env = Environment(env, "BATUTA_TICK="+tick.Format(time.RFC3339))
		}
		began := time.Now()
		outcome, stopped, err := r.tries(ctx, node, l, command, lease.Whole)
		if time.Since(began) > longEnough {
			r.pause = r.cfg.Pause
		}
		switch {
		case stopped:
			r.cfg.Logger.Info("the command is stopped", "cause", context.Cause(ctx), "epoch", l.Token.Epoch)
			return
		case err != nil:
			r.failed = err
			return
		case outcome.Expired:
			r.cfg.Logger.Warn("the command was stopped: its lease was not renewed in time", "lease", cmp.Or(lease.Whole, max(lease.Left, 0), r.lease()))
			r.wait(ctx, node, r.every(lease.Whole))
		case ticks != nil: // it was reported
		case outcome.Code != 0:
			r.failed = outcome.err()
			return
		case !r.cfg.Restart:
			r.over = true
			return
		default:
			r.cfg.Logger.Info("the command has ended well; it starts again", "pause", r.pause)
			r.wait(ctx, node, r.nextPause())
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// tries runs the command, and a command by schedule again while it fails and may be retried.
func (r *Runner) tries(ctx context.Context, node Node, l batuta.Leadership, command *Command, whole time.Duration) (outcome Outcome, stopped bool, err error) {
	pause := r.cfg.Pause
	for try := 1; ; try++ {
		began := time.Now()
		if r.journal != nil {
			r.journal.Began(try)
		}
		running, end := r.finishing(ctx, node)
		limited, cancel := r.limited(running)
		outcome, err = r.keeper.run(limited, command, r.every(whole), r.cfg.T, r.renewal(ctx, node, l.Token))
		stopped = running.Err() != nil
		outcome.TimedOut = limited.Err() != nil && !stopped
		cancel()
		e := Ending{outcome, time.Since(began), stopped || outcome.Expired, err}
		if r.journal != nil {
			r.journal.Ended(e)
		}
		end()
		r.clear()
		if r.ticks == nil || e.Stopped || err != nil {
			return outcome, stopped, err
		}
		if again := r.ran(e, try); !again {
			return outcome, false, nil
		}
		r.wait(ctx, node, pause)
		if ctx.Err() != nil {
			return outcome, true, nil
		}
		pause = min(2*pause, maxPause)
	}
}

// limited is running for as long as a run by schedule may last.
func (r *Runner) limited(running context.Context) (context.Context, context.CancelFunc) {
	if r.ticks == nil || r.cfg.Plan.Timeout == 0 {
		return running, func() {}
	}
	return context.WithTimeout(running, r.cfg.Plan.Timeout)
}

// Lease renews the lease of a leadership that is not a node's. It gives for how long the command may go on, counted
// from the call, and how long a lease is that was just renewed (0: with best effort). false: nothing is renewed.
type Lease func() (left, whole time.Duration, ok bool)

// Once runs the command a single time under a leadership of member id, and renews its lease every so often. It
// returns when nothing of the command is left. When ctx ends the command is stopped by its [StopSignal].
func (r *Runner) Once(ctx context.Context, id batuta.ID, l batuta.Leadership, every time.Duration, lease Lease) (Outcome, error) {
	command := &Command{Argv: r.cfg.Argv, Env: environment(WithoutMeta(os.Environ()), id, l), Grace: r.cfg.Grace}
	return r.keeper.run(ctx, command, every, r.cfg.T, func() (term, bool) {
		at := now() // before the request: what that takes is not counted as renewed
		left, whole, ok := lease()
		if whole == 0 {
			return term{until: at.add(left)}, ok
		}
		return termOf(at.add(left), whole, r.cfg.Notice), ok
	})
}

// clear takes away what the last run may have left.
func (r *Runner) clear() {
	if r.cfg.Clear == nil {
		return
	}
	if err := r.cfg.Clear(); err != nil {
		r.cfg.Logger.Error("cannot take away what the command has left", "error", err)
	}
}

// metaOf is what a member that leads tells of itself.
func metaOf(node Node) map[string]string {
	if own, ok := node.(interface{ Meta() map[string]string }); ok {
		return own.Meta()
	}
	return node.Leader().Meta
}

// every is the time between two renewals, of a lease that the node has or of our own.
func (r *Runner) every(whole time.Duration) time.Duration {
	if whole > 0 {
		return min(r.cfg.Heartbeat, whole/8)
	}
	return min(r.cfg.Heartbeat, r.lease()/4)
}

// renewal gives the end of the lease, provided that the node's loop does its work
// and still leads, or the command has been told to stop: then the grace period
// bounds it too.
//
// Where the leadership has a lease of its own, nobody else leads before that has ended,
// and nothing of the command may be left by then. It is asked to end when half the lease
// has gone by without a renewal (see Config.Notice), and killed a tenth of it before the end.
// Where it has none, but says how long it lasts by itself, that is what the command has.
func (r *Runner) renewal(ctx context.Context, node Node, token batuta.Token) func() (term, bool) {
	return func() (term, bool) {
		at := now()                                    // before the node is asked: what that takes is not counted as renewed
		given, err := node.Lease(context.Background()) // comes back from the loop: it is not stuck
		switch {
		case given.Whole == 0:
			now := node.Leader().Token // which may be a higher one of the same leadership
			leads := node.IsLeader() && now.Leader.ID == token.Leader.ID && now.Epoch >= token.Epoch
			lease := r.lease()
			if given.Left > 0 {
				lease = given.Left
			}
			return term{until: at.add(lease)}, leads || ctx.Err() != nil
		case err != nil:
			return term{}, false
		}
		return termOf(at.add(given.Left), given.Whole, r.cfg.Notice), given.Left > 0
	}
}

// termOf is the term of a command under a lease that ends then, of whole at most. It is
// asked to end that part of it before: 2 for a half.
func termOf(end instant, whole time.Duration, notice int) term {
	return term{until: end.add(-whole / 10), ask: end.add(-whole / time.Duration(notice)), last: end.add(-whole / 20)}
}

// nextPause is how long to wait now; the next wait is twice as long.
func (r *Runner) nextPause() time.Duration {
	pause := r.pause
	r.pause = min(2*pause, maxPause)
	return pause
}

// wait lets d pass, unless ctx or node ends.
func (r *Runner) wait(ctx context.Context, node Node, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-node.Done():
	}
}

func (o Outcome) err() error {
	if o.TimedOut {
		return errors.New("stopped at its timeout")
	}
	if o.Signal != 0 {
		return fmt.Errorf("ended by signal %d (%v)", int(o.Signal), o.Signal)
	}
	return fmt.Errorf("exit code %d", o.Code)
}

// environment is what the command finds.
func environment(own []string, id batuta.ID, l batuta.Leadership) []string {
	return Environment(own,
		"BATUTA_ID="+string(id),
		"BATUTA_ELECTION="+l.Election,
		fmt.Sprintf("BATUTA_EPOCH=%d", l.Token.Epoch),
		"BATUTA_TOKEN="+l.Token.String(),
	)
}

// MetaVariables are the variables by which a command finds what a leader tells of
// itself, such as BATUTA_META_URL.
func MetaVariables(meta map[string]string) (set []string) {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		set = append(set, election.MetaVariable(key)+"="+meta[key])
	}
	return set
}

// WithoutMeta leaves out what an agent around this one has told of a leader of its own.
func WithoutMeta(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, election.MetaPrefix) })
}

// Environment is this process's own, without what systemd means for this process
// alone, and with set, each NAME=VALUE, in place of what it had under that name.
func Environment(own []string, set ...string) []string {
	dropped := []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}
	for _, s := range set {
		name, _, _ := strings.Cut(s, "=")
		dropped = append(dropped, name)
	}
	var kept []string
	for _, e := range own {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(dropped, name) {
			kept = append(kept, e)
		}
	}
	return append(kept, set...)
}
