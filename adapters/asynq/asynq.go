// Package asynq has only the leader enqueue the periodic tasks of [github.com/hibiken/asynq].
//
//	err := batutaasynq.Lead(ctx, node, func() (batutaasynq.Scheduler, error) {
//		s := asynq.NewScheduler(redis, nil)
//		_, err := s.Register("@every 1m", asynq.NewTask("report", nil))
//		return s, err
//	})
package asynq

import (
	"context"

	"github.com/hibiken/asynq"

	"github.com/batuta-dev/batuta"
)

// Scheduler is an [asynq.Scheduler] or an [asynq.PeriodicTaskManager].
type Scheduler interface {
	Start() error
	Shutdown()
}

var (
	_ Scheduler = (*asynq.Scheduler)(nil)
	_ Scheduler = (*asynq.PeriodicTaskManager)(nil)
)

// Lead has a scheduler of its own run in each leadership of this candidate: create makes it, since asynq starts none twice.
// The next leadership begins only when the scheduler has shut down, unless the leader is cut off: give what must not be
// enqueued twice then [asynq.Unique] or [asynq.TaskID]. A time at which no scheduler runs is missed.
//
// Lead returns as [batuta.Elector]'s does. If create or the start fails, it steps down and returns that error.
func Lead(ctx context.Context, e batuta.Elector, create func() (Scheduler, error)) error {
	return e.Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
		s, err := create()
		if err != nil {
			return err
		}
		if err := s.Start(); err != nil {
			return err
		}
		<-ctx.Done()
		s.Shutdown()
		return ctx.Err()
	})
}
