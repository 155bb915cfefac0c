// Package river has the leader enqueue the periodic jobs of [github.com/riverqueue/river].
//
//	err := batutariver.Lead(ctx, node, func() (*river.Client[pgx.Tx], error) {
//		return river.NewClient(driver, &river.Config{PeriodicJobs: jobs, Workers: workers, Queues: queues})
//	})
//
// River elects by its database, and has no interface to replace that election. So only the leader has a client that takes part
// in River's election. All other clients have LeaderElectionDisabled: they work jobs.
package river

import (
	"context"
	"time"

	"github.com/riverqueue/river"

	"github.com/batuta-dev/batuta"
)

// stopTime is how long a client may finish its jobs before their contexts end.
const stopTime = 10 * time.Second

// Lead runs a new client in each leadership of this candidate: create makes it, with the periodic jobs and at least a single
// queue. At the end of the leadership the client fetches no more; after 10 s the contexts of its jobs end. The next
// leadership begins when the client has stopped, unless the leader is cut off. Then River's own election, which the client still holds
// in the database, makes the next client wait.
//
// Lead returns as [batuta.Elector]'s does. If create or the start fails, or the client stops by itself, it steps down and returns
// that error, or nil.
func Lead[T any](ctx context.Context, e batuta.Elector, create func() (*river.Client[T], error)) error {
	return e.Lead(ctx, func(ctx context.Context, _ batuta.Leadership) error {
		c, err := create()
		if err != nil {
			return err
		}
		whole := context.WithoutCancel(ctx) // or River cancels its jobs at once
		if err := c.Start(whole); err != nil {
			return err
		}
		select {
		case <-c.Stopped():
			return nil
		case <-ctx.Done():
		}
		soft, cancel := context.WithTimeout(whole, stopTime)
		defer cancel()
		if err := c.Stop(soft); err != nil {
			return c.StopAndCancel(whole)
		}
		return ctx.Err()
	})
}
