// Package batutacron calls a function at the times of a cron schedule, on the leader alone. A time
// that fell due while no member led is made up for by the next leader.
//
//	err := batutacron.Run(ctx, node, batutacron.Job{Name: "report", Schedule: "30 4 * * *", Do: report})
//
// Commands and configuration files have the same: see "batuta run --schedule" and "batuta agent --jobs".
package batutacron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// running has the jobs for which [Run] has not returned.
var running sync.Map

// place is where a job publishes its times.
type place struct {
	node *batuta.Node
	key  string
}

// Job is a function and the times at which the leader calls it. Name and Schedule must be the same on all members.
type Job struct {
	// Name is the job's, 1 to 48 letters, digits, '.', '_' and '-'; [Run] refuses a name that a job of the node has already.
	Name string

	// Schedule is as [Parse] reads it, such as "30 4 * * *", in UTC.
	Schedule string

	// SkipMissed leaves out what fell due while no member led or a call lasted. By default Do is called once for all that
	// was missed, with the last of these times.
	SkipMissed bool

	// Do is called with the time that fell due, and returns when its work has ended. ctx ends with the leadership l. The
	// next call waits for it, and so does the next leadership, unless the leader is cut off: l has the fence for that.
	Do func(ctx context.Context, l batuta.Leadership, tick time.Time)

	// Election is where the leader is elected; default: the cluster's own election. A named election of the node
	// spreads jobs over the members.
	Election batuta.Elector
}

// Run calls job.Do at the times of its schedule for as long as this member leads, over all its leaderships, until ctx ends.
// It begins as a candidate, as [batuta.Node.Lead] does, and returns as that does: ctx's error, [batuta.ErrClosed] or the
// node's own. An error that wraps [batuta.ErrConfig] names what is wrong with job.
//
// Each time is called for at most once, if members agree on the leader: before the call, it is published to all members in
// the node's metadata, under "batuta.tick." and the name, and a call that was cut short is not repeated. If a leader ends
// before the others have received it, the next may repeat the call. [batuta.Node.SetMeta] and
// [batuta.Node.MergeMeta] keep that pair; there is room for a dozen jobs, and Run ends with an error without room. A published time
// that is more than an hour ahead of the wall clock comes from a wrong clock, and does not count until it is less.
//
// CRON_TZ needs the IANA time zones: a program for an image or a system without them imports time/tzdata.
func Run(ctx context.Context, node *batuta.Node, job Job) error {
	if job.Do == nil {
		return fmt.Errorf("%w: job %q has no Do: give it a function", batuta.ErrConfig, election.Shown(job.Name))
	}
	key := "batuta.tick." + job.Name
	if err := election.CheckMeta(map[string]string{key: ""}); err != nil || job.Name == "" || len(job.Name) > 48 {
		return fmt.Errorf("%w: job name %.64q: give 1 to 48 letters, digits, '.', '_' and '-'", batuta.ErrConfig, election.Shown(job.Name))
	}
	times, err := Parse(job.Schedule)
	if err != nil {
		return fmt.Errorf("%w: job %s: %w", batuta.ErrConfig, job.Name, err)
	}
	at := place{node, key}
	if _, taken := running.LoadOrStore(at, nil); taken {
		return fmt.Errorf("%w: job %s runs already on this node: give each job its own name", batuta.ErrConfig, job.Name)
	}
	defer running.Delete(at)
	var stop context.CancelCauseFunc // of the present leadership
	ticks := schedule.Ticker{Schedule: schedule.Schedule{Ticks: times}, SkipMissed: job.SkipMissed,
		Known: func() time.Time {
			status, _ := node.Status(context.Background()) // the last, once the node has ended
			return schedule.LastTick(status.Members, key)
		},
		Publish: func(ctx context.Context, tick time.Time) {
			if err := node.MergeMeta(ctx, map[string]string{key: tick.UTC().Format(time.RFC3339)}); err != nil {
				stop(fmt.Errorf("job %s: %w", job.Name, err))
			}
		},
	}
	if job.Election == nil {
		job.Election = node
	}
	return job.Election.Lead(ctx, func(ctx context.Context, l batuta.Leadership) error {
		ctx, stop = context.WithCancelCause(ctx)
		defer stop(nil)
		for {
			tick, err := ticks.Await(ctx)
			if errors.Is(err, schedule.ErrNever) {
				<-ctx.Done()
			}
			if err != nil {
				return context.Cause(ctx)
			}
			job.Do(ctx, l, tick)
		}
	})
}
