package asynq_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"

	"github.com/batuta-dev/batuta"
	adapter "github.com/batuta-dev/batuta/adapters/asynq"
	"github.com/batuta-dev/batuta/batutatest"
)

// Tasks are enqueued while this candidate leads, in its second leadership too, and only then.
func TestTheLeaderEnqueues(t *testing.T) {
	e, redis := batutatest.NewElector(t), asynq.RedisClientOpt{Addr: miniredis.RunT(t).Addr()}
	var enqueued atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- adapter.Lead(ctx, e, func() (adapter.Scheduler, error) {
			s := asynq.NewScheduler(redis, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel, PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
				if err == nil {
					enqueued.Add(1)
				}
			}})
			_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
			return s, err
		})
	}()
	for range 2 {
		before := enqueued.Load()
		e.Elect()
		for late := time.Now().Add(30 * time.Second); enqueued.Load() == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(late) {
				t.Fatal("the leader enqueues nothing")
			}
		}
		e.Lose(batuta.CauseResigned) // returns when the scheduler has shut down
		before = enqueued.Load()
		time.Sleep(1500 * time.Millisecond) // longer than the schedule's second
		if enqueued.Load() != before {
			t.Error("a task was enqueued without a leader")
		}
	}
	inspector := asynq.NewInspector(redis)
	defer inspector.Close()
	if tasks, err := inspector.ListPendingTasks("default"); err != nil || int64(len(tasks)) != enqueued.Load() {
		t.Errorf("%d tasks wait, %d were enqueued: %v", len(tasks), enqueued.Load(), err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Lead: %v", err)
	}
}

// A leader without a scheduler steps down.
func TestNoScheduler(t *testing.T) {
	e, want := batutatest.NewElector(t), errors.New("no such schedule")
	result := make(chan error, 1)
	go func() {
		result <- adapter.Lead(t.Context(), e, func() (adapter.Scheduler, error) { return nil, want })
	}()
	e.Elect()
	if err := <-result; !errors.Is(err, want) {
		t.Errorf("Lead: %v", err)
	}
}
