package run

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/schedule"
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
func (p *Plan) Check() error { return election.CheckMeta(p.meta(time.Now())) }

func (p *Plan) meta(tick time.Time) map[string]string {
	meta := maps.Clone(p.Meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[TickKey] = tick.UTC().Format(time.RFC3339)
	return meta
}

// Teller is a [Node] that publishes metadata, and so ticks. Without it a tick that fell due while
// no member led is not detected, and not run.
type Teller interface {
	Status(ctx context.Context) (batuta.Status, error)
	SetMeta(ctx context.Context, pairs map[string]string) error
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
		log = metaLog{node, p}
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
type metaLog struct {
	Teller
	plan *Plan
}

func (l metaLog) Known() time.Time {
	status, _ := l.Status(context.Background()) // the last, once the node has ended
	return schedule.LastTick(status.Members, TickKey)
}

func (l metaLog) Publish(ctx context.Context, tick time.Time) error {
	return l.SetMeta(ctx, l.plan.meta(tick))
}

// noLog is for members that cannot publish ticks.
type noLog struct{}

func (noLog) Known() time.Time                         { return time.Time{} }
func (noLog) Publish(context.Context, time.Time) error { return nil }

// untimely records why no run is due any more.
func (r *Runner) untimely(ctx context.Context, err error) {
	if errors.Is(err, schedule.ErrNever) && ctx.Err() == nil {
		r.failed = err
	}
}

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
