// Package run runs a command only on the leader.
//
// Three processes share the work. The node elects the leader. The guard, a child of the node's
// process, is the parent of the command. It starts the command in a process group of its own, stops
// it on request, and reports when nothing of it is left. It kills the group without a request when
// the pipe to the node's process ends, or when the node has not renewed the command's lease in
// time.
//
// If the node detects that it has lost leadership, the command gets SIGTERM, and SIGKILL after a
// grace period. If the node's process has died or is stuck, a new leader may exist already: the
// group is killed at once.
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
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// Bounds of the pause after a failure, and how long a command must have run for its failure to
// count as the first.
const (
	firstPause = time.Second
	maxPause   = time.Minute
	longEnough = time.Minute
)

// Node is the part of a [batuta.Node] that a Runner needs; different elections implement it too.
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
	Last      time.Duration // grace after the end of the lease, or of this process; default 0: SIGKILL at once; within the lease of a leadership that has a lease
	Clear     func() error  // what the guard calls after each run, see [Guard]; called here too, for a guard that has died; nil: there is nothing to remove
	Finish    time.Duration // how long a run by Plan may continue once its election is to be handed over; default 0: it is asked to end at once
	Restart   bool          // a command that ends with exit code 0 is started again
	Plan      *Plan         // when the command runs; nil: at once, for as long as the member leads
	Heartbeat time.Duration // of the node
	T         time.Duration // silence after which the node is suspected
	Program   string        // path of this program
	Guard     []string      // arguments that make it a guard
	Guards    *Guards       // shared between runners, instead of Program and Guard; default: a guard of its own
	Name      string        // prefix of each line of the command's output; default: it writes directly
	Notice    int           // the command is asked to end this fraction of a lease before its end: 4 for a quarter; default 2
	Pause     time.Duration // after the first failure; default 1 s, doubled each time up to a minute
	Logger    *slog.Logger

	// Serve returns what the environment of the command has besides a leadership, and what to call when the run has
	// ended; it is called for each run. nil: nothing.
	Serve func(context.Context, batuta.Leadership) (set []string, end func(), err error)
}

// Runner runs a command while a node leads.
type Runner struct {
	cfg     Config
	keeper  keeper
	pause   time.Duration    // after the next failure
	ticks   *schedule.Ticker // nil: there is no plan, or no leadership yet
	journal Journal          // of the plan; nil: none

	run context.Context // the context of Run

	over   bool  // whether the last run was the last under its leadership
	failed error // why the last run failed; nil: it did not
}

// New prepares a Runner, and starts its guard. The caller must call Run or Close.
func New(c Config) (*Runner, error) {
	c.Pause = cmp.Or(c.Pause, firstPause)
	c.Notice = cmp.Or(c.Notice, 2)
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

// Close ends the guard. No command may run.
func (r *Runner) Close() { r.keeper.close() }

// Signal sends s to the command, if it runs.
func (r *Runner) Signal(s syscall.Signal) { r.keeper.signal(s) }

// Kill kills the command, if it runs, without further grace.
func (r *Runner) Kill() { r.keeper.kill() }

// lease returns how long a command outlives a stuck node. The members can elect a new leader T
// after the last heartbeat, which may be a heartbeat older than the last renewal.
func (r *Runner) lease() time.Duration {
	return max(r.cfg.T-r.cfg.Heartbeat, r.cfg.T/2)
}

// Run runs the command once per leadership of node. It returns nil when the command has ended with
// exit code 0 (unless Restart is set) or when ctx has ended, and the node's error when that has. By
// then nothing of the command is left; when ctx ends it is stopped by its [StopSignal].
func (r *Runner) Run(ctx context.Context, node Node) error {
	r.run = ctx
	for {
		leading, cancel := context.WithCancel(ctx)
		r.failed = nil
		err := node.Lead(leading, func(ctx context.Context, l batuta.Leadership) error {
			r.lead(ctx, node, l)
			if r.failed != nil {
				node.SetHealth(r.run, fmt.Errorf("its command failed: %w", r.failed)) // not ctx: that ends with leadership
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

// lead runs the command as long as this leadership lasts, or until it is over or has failed.
func (r *Runner) lead(ctx context.Context, node Node, l batuta.Leadership) {
	lease, err := node.Lease(ctx)
	if err != nil {
		return // leadership was lost meanwhile
	}
	if r.cfg.Guards == nil { // it also attests while the command waits for its time
		if _, err := r.keeper.ready(); err != nil {
			r.failed = err
			return
		}
	}
	command := &Command{Argv: r.cfg.Argv, Env: Environment(environment(WithoutMeta(os.Environ()), node.ID(), l), MetaVariables(metaOf(node))...), Grace: r.cfg.Grace, Last: r.cfg.Last, Name: r.cfg.Name}
	ticks, env := r.ticker(node), command.Env
	for {
		if ticks != nil {
			tick, err := ticks.Await(ctx)
			if err != nil {
				if errors.Is(err, schedule.ErrNever) && ctx.Err() == nil {
					r.failed = err // no run is due any more
				}
				return
			}
			command.Env = Environment(env, "BATUTA_TICK="+tick.Format(time.RFC3339))
		}
		began := time.Now()
		outcome, stopped, err := r.served(ctx, node, l, command, lease.Whole)
		if time.Since(began) > longEnough {
			r.pause = r.cfg.Pause
		}
		switch {
		case stopped:
			r.cfg.Logger.Info(outcome.stop(), "cause", context.Cause(ctx), "epoch", l.Token.Epoch)
			return
		case err != nil:
			r.failed = err
			return
		case outcome.Unbegun:
			r.cfg.Logger.Warn("the command was not started: its lease was not renewed in time")
			r.wait(ctx, node, r.every(lease.Whole))
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

// served runs the command with what Config.Serve gives for this run.
func (r *Runner) served(ctx context.Context, node Node, l batuta.Leadership, command *Command, whole time.Duration) (Outcome, bool, error) {
	if r.cfg.Serve != nil {
		set, end, err := r.cfg.Serve(ctx, l)
		if err != nil {
			return Outcome{}, false, err
		}
		defer end()
		command.Env = Environment(command.Env, set...)
	}
	return r.tries(ctx, node, l, command, whole)
}

// tries runs the command, and retries a scheduled command while it fails and may be retried.
func (r *Runner) tries(ctx context.Context, node Node, l batuta.Leadership, command *Command, whole time.Duration) (outcome Outcome, stopped bool, err error) {
	pause := r.cfg.Pause
	for try := 1; ; try++ {
		began := time.Now()
		if r.journal != nil {
			r.journal.Began(try)
		}
		running, end := r.finishing(ctx, node)
		limited, cancel := running, context.CancelFunc(func() {})
		if r.ticks != nil && r.cfg.Plan.Timeout != 0 {
			limited, cancel = context.WithTimeout(running, r.cfg.Plan.Timeout)
		}
		outcome, err = r.keeper.run(limited, command, r.every(whole), r.cfg.T, unlessOver(running, r.renewal(ctx, node, l.Token)))
		stopped = running.Err() != nil || outcome.Unbegun && ctx.Err() != nil
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

// Lease renews the lease of a leadership that is not a node's. It returns how long the command may
// continue, counted from the call, and the length of a lease that was just renewed (0: with best
// effort). false: it was not renewed.
type Lease func() (left, whole time.Duration, ok bool)

// Once runs the command a single time under a leadership of member id, and renews its lease at that
// interval. It returns when nothing of the command is left. When ctx ends the command is stopped by
// its [StopSignal].
func (r *Runner) Once(ctx context.Context, id batuta.ID, l batuta.Leadership, every time.Duration, lease Lease) (Outcome, error) {
	command := &Command{Argv: r.cfg.Argv, Env: environment(WithoutMeta(os.Environ()), id, l), Grace: r.cfg.Grace}
	return r.keeper.run(ctx, command, every, r.cfg.T, func() (term, bool) {
		at := now() // before the request, so that its duration does not count as renewed
		left, whole, ok := lease()
		if whole == 0 {
			return term{until: at.add(left)}, ok
		}
		return termOf(at.add(left), whole, r.cfg.Notice), ok
	})
}

// clear removes what the last run may have left.
func (r *Runner) clear() {
	if r.cfg.Clear == nil {
		return
	}
	if err := r.cfg.Clear(); err != nil {
		r.cfg.Logger.Error("cannot remove what the command has left", "error", err)
	}
}

// metaOf returns the metadata of a member that leads.
func metaOf(node Node) map[string]string {
	if own, ok := node.(interface{ Meta() map[string]string }); ok {
		return own.Meta()
	}
	return node.Leader().Meta
}

// every returns the time between two renewals, of the node's lease or of our own.
func (r *Runner) every(whole time.Duration) time.Duration {
	if whole > 0 {
		return min(r.cfg.Heartbeat, whole/8)
	}
	return min(r.cfg.Heartbeat, r.lease()/4)
}

// renewal returns the end of the lease, if the node's loop works and still leads, or if the command
// was asked to stop: then the grace period bounds it too.
//
// If leadership has a lease, no other member leads before that has ended, and nothing of the
// command may be left by then. The command is asked to end when half the lease has passed without a
// renewal (see Config.Notice), and killed a tenth of the lease before its end. A leadership without
// a lease that reports its duration gives the command that duration.
func (r *Runner) renewal(ctx context.Context, node Node, token batuta.Token) func() (term, bool) {
	return func() (term, bool) {
		at := now()                                    // before the node is asked, so that its duration does not count as renewed
		given, err := node.Lease(context.Background()) // the loop answers it: it is not stuck
		switch {
		case given.Whole == 0:
			now := node.Leader().Token // maybe a higher token of the same leadership
			leads := node.IsLeader() && now.Leader.ID == token.Leader.ID && now.Epoch >= token.Epoch
			return term{until: at.add(cmp.Or(max(given.Left, 0), r.lease()))}, leads || ctx.Err() != nil
		case err != nil:
			return term{}, false
		}
		return termOf(at.add(given.Left), given.Whole, r.cfg.Notice), given.Left > 0
	}
}

// unlessOver returns renew, except that the first call, before the command begins, fails if ctx has
// ended by then: it took its time to start a guard. A tick that was published is begun by no other
// member, so its run has [Config].Finish to end by itself if the election is handed over.
func unlessOver(ctx context.Context, renew func() (term, bool)) func() (term, bool) {
	begun := false
	return func() (term, bool) {
		if !begun && ctx.Err() != nil {
			return term{}, false
		}
		begun = true
		return renew()
	}
}

// termOf returns the term of a command under a lease that ends at end, of at most whole. The
// command is asked to end that fraction of whole before: 2 for a half.
func termOf(end instant, whole time.Duration, notice int) term {
	return term{until: end.add(-whole / 10), ask: end.add(-whole / time.Duration(notice)), last: end.add(-whole / 20), end: end}
}

// nextPause returns the pause now; the next is twice as long.
func (r *Runner) nextPause() time.Duration {
	pause := r.pause
	r.pause = min(2*pause, maxPause)
	return pause
}

// wait returns after d, or when ctx or node ends.
func (r *Runner) wait(ctx context.Context, node Node, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-node.Done():
	}
}

// stop reports what the end of a leadership did to the command.
func (o Outcome) stop() string {
	if o.Unbegun {
		return "the command was not started"
	}
	return "the command is stopped"
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

// environment returns the environment of the command.
func environment(own []string, id batuta.ID, l batuta.Leadership) []string {
	return Environment(own,
		"BATUTA_ID="+string(id),
		"BATUTA_ELECTION="+l.Election,
		fmt.Sprintf("BATUTA_EPOCH=%d", l.Token.Epoch),
		"BATUTA_TOKEN="+l.Token.String(),
	)
}

// MetaVariables returns the variables with a leader's metadata for a command, such as
// BATUTA_META_URL.
func MetaVariables(meta map[string]string) (set []string) {
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		set = append(set, election.MetaVariable(key)+"="+meta[key])
	}
	return set
}

// WithoutMeta removes the variables of an agent that started this agent, which describe the leader
// of a different cluster.
func WithoutMeta(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(e string) bool { return strings.HasPrefix(e, election.MetaPrefix) })
}

// Environment returns this process's environment without the variables that systemd sets only for
// this process. Each NAME=VALUE of set replaces the variable of that name.
func Environment(own []string, set ...string) []string {
	dropped := []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}
	for _, s := range set {
		name, _, _ := strings.Cut(s, "=")
		dropped = append(dropped, name)
	}
	kept := slices.DeleteFunc(slices.Clone(own), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains(dropped, name)
	})
	return append(kept, set...)
}
