package run

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// Plan runs the command by a schedule, only on the leader. Members publish the last tick in their
// metadata, so that the next leader has it.
type Plan struct {
	Schedule   schedule.Schedule
	SkipMissed bool
	Meta       map[string]string // the rest of the member's metadata
	Timeout    time.Duration     // after which a run is stopped, and has failed; 0: never
	Retries    int               // how often to retry a failed run, after 1 s, doubled each time up to a minute
	Log        TickLog           // where ticks are published; nil: under [TickKey]
}

// TickLog is where members publish the ticks of a job.
type TickLog interface {
	Known() time.Time // the last tick of any member; zero: none
	Publish(ctx context.Context, tick time.Time) error
}

// Journal is a [TickLog] that also receives reports on the runs of a job.
type Journal interface {
	TickLog
	schedule.Watcher
	Began(try int) // a run begins, for the last published tick; try is 1, and higher for each retry
	Ended(e Ending)
}

// Ending is how a run has ended.
type Ending struct {
	Outcome
	Took      time.Duration
	Stopped   bool  // because its member no longer leads, or cannot renew the lease
	Unstarted error // why it could not be started; nil: it was
}

// TickKey is the metadata key for the last tick that a member has learned of.
const TickKey = "batuta.tick"

// Check reports whether a member's metadata has room for ticks.
func (p *Plan) Check() error {
	meta := tickMeta(time.Now())
	maps.Copy(meta, p.Meta)
	return election.CheckMeta(meta)
}

func tickMeta(tick time.Time) map[string]string {
	return map[string]string{TickKey: tick.UTC().Format(time.RFC3339)}
}

// Teller is a [Node] that publishes metadata, and so ticks. Without it a tick that fell due while
// no member led is not detected, and not run.
type Teller interface {
	Status(ctx context.Context) (batuta.Status, error)
	MergeMeta(ctx context.Context, pairs map[string]string) error
}

var _ Teller = (*batuta.Node)(nil)

// ticker returns the ticks for of; nil: there is no plan.
func (r *Runner) ticker(of Node) *schedule.Ticker {
	p := r.cfg.Plan
	if p == nil || r.ticks != nil {
		return r.ticks
	}
	log := p.Log
	if node, ok := of.(Teller); log == nil && ok {
		log = metaLog{node}
	} else if log == nil {
		log = noLog{}
	}
	var watcher schedule.Watcher
	if j, ok := log.(Journal); ok {
		watcher, r.journal = j, j
	}
	r.ticks = &schedule.Ticker{Schedule: p.Schedule, SkipMissed: p.SkipMissed, Known: log.Known, Watcher: watcher,
		Publish: func(ctx context.Context, tick time.Time) {
			if err := log.Publish(ctx, tick); err != nil && ctx.Err() == nil {
				r.cfg.Logger.Error("the other members are not notified of this tick; the next leader may run it again", "tick", tick, "error", err)
			}
		}}
	return r.ticks
}

// metaLog publishes the ticks of a job under [TickKey].
type metaLog struct{ Teller }

func (l metaLog) Known() time.Time {
	status, _ := l.Status(context.Background()) // the last, once the node has ended
	return schedule.LastTick(status.Members, TickKey)
}

func (l metaLog) Publish(ctx context.Context, tick time.Time) error {
	return l.MergeMeta(ctx, tickMeta(tick))
}

// noLog is for members that cannot publish ticks.
type noLog struct{}

func (noLog) Known() time.Time                         { return time.Time{} }
func (noLog) Publish(context.Context, time.Time) error { return nil }

// ran logs how a scheduled run has ended, and reports whether to retry it. Without a retry a failed
// run is not repeated before the next tick, and the member continues to lead: the command might
// fail elsewhere too.
func (r *Runner) ran(e Ending, try int) (again bool) {
	level, args := slog.LevelInfo, []any{"took", e.Took.Round(time.Millisecond)}
	if e.Code != 0 || e.Signal != 0 || e.TimedOut {
		again = try <= r.cfg.Plan.Retries
		level, args = slog.LevelError, append(args, "error", e.err(), "try", try, "again", again)
	}
	r.cfg.Logger.Log(context.Background(), level, "the scheduled command has ended", args...)
	return again
}

// finishing returns the context of a run under a leadership with context ctx. It ends with ctx,
// unless the election is handed over: the run then has [Config].Finish to end by itself, and the
// next leader begins afterwards. The caller must call end.
func (r *Runner) finishing(ctx context.Context, node Node) (running context.Context, end func()) {
	if r.cfg.Finish == 0 || r.ticks == nil {
		return ctx, func() {}
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		lost, ok := errors.AsType[*batuta.LostError](context.Cause(ctx))
		if ok && lost.Cause == batuta.CauseResigned {
			r.cfg.Logger.Info("the command may end by itself before another takes over", "token", lost.Token.String(), "within", r.cfg.Finish)
			r.letFinish(running, node)
		}
		if r.run.Err() != nil {
			ctx = r.run // its cause is the signal
		}
		cancel(context.Cause(ctx))
	})
	return running, func() {
		stop()
		cancel(nil)
	}
}

// letFinish returns when a run is over, has used up its time, or may not continue: this process
// ends, or the leadership is about to expire.
func (r *Runner) letFinish(running context.Context, node Node) {
	timeout := time.After(r.cfg.Finish)
	look := time.NewTicker(r.cfg.Heartbeat)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if l, err := node.Lease(running); err != nil || l.Left <= 0 {
				return
			}
		case <-running.Done():
			return
		case <-timeout:
			return
		case <-r.run.Done():
			return
		case <-node.Done():
			return
		}
	}
}

// warnOfOtherUser warns of a command that this process may not be able to end, because it changes
// its user.
func warnOfOtherUser(program string, log *slog.Logger) {
	path, err := exec.LookPath(program)
	if err != nil || mayKillAll() {
		return
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode()&fs.ModeSetuid == 0 {
		return
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		log.Warn("the command runs as another user (setuid), and the system may not let batuta stop it: two may run at once when leadership changes; run batuta as that user, or as root",
			"command", path, "uid", owner.Uid)
	}
}

// Under returns the Node for a command that runs under one of a member's named elections.
func Under(n *batuta.Node, e *batuta.Election) Node { return electionNode{n, e} }

// NamedNotice is [Config].Notice for such a command: it is asked to end only after a coordinator
// that fails can have been replaced.
const NamedNotice = 4

// electionNode is a member as a participant in one of its elections.
type electionNode struct {
	node *batuta.Node
	*batuta.Election
}

// ID returns the member's id.
func (n electionNode) ID() batuta.ID { return n.node.ID() }

// Meta returns the member's metadata.
func (n electionNode) Meta() map[string]string {
	status, _ := n.node.Status(context.Background())
	for _, m := range status.Members {
		if m.ID == n.node.ID() {
			return m.Meta
		}
	}
	return nil
}

// SetHealth does nothing: a member with a failed command is no candidate of this election until it
// tries the command again; its eligibility for the rest is unchanged.
func (electionNode) SetHealth(context.Context, error) error { return nil }

// Done returns the node's channel.
func (n electionNode) Done() <-chan struct{} { return n.node.Done() }

var _ Node = electionNode{}
