package gocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/batuta-dev/batuta"
	adapter "github.com/batuta-dev/batuta/adapters/gocron"
	"github.com/batuta-dev/batuta/batutatest"
)

// schedule has a real scheduler run a job every 10 ms.
func schedule(t *testing.T, option gocron.SchedulerOption, job func()) {
	t.Helper()
	s, err := gocron.NewScheduler(option)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(10*time.Millisecond), gocron.NewTask(job), gocron.WithSingletonMode(gocron.LimitModeReschedule)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown() })
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

// counted counts how often a scheduler asks an elector, and the runs that it permits.
type counted struct {
	gocron.Elector
	asked, permitted atomic.Int64
}

func (c *counted) IsLeader(ctx context.Context) error {
	err := c.Elector.IsLeader(ctx)
	if err == nil {
		c.permitted.Add(1)
	}
	c.asked.Add(1)
	return err
}

// Jobs run while this candidate leads, and only then.
func TestElector(t *testing.T) {
	e := batutatest.NewElector(t)
	c := &counted{Elector: adapter.Elector(e)}
	var runs atomic.Int64
	schedule(t, gocron.WithDistributedElector(c), func() { runs.Add(1) })
	await(t, "the job is due", func() bool { return c.asked.Load() > 3 })
	if runs.Load() > 0 {
		t.Error("a job ran without a leader")
	}
	e.Elect()
	await(t, "the leader runs the job", func() bool { return runs.Load() > 2 })
	e.Lose(batuta.CauseResigned)
	before := c.asked.Load()
	await(t, "the job is due again", func() bool { return c.asked.Load() > before+5 })
	permitted := c.permitted.Load()
	await(t, "each permitted run begins", func() bool { return runs.Load() == permitted })
	await(t, "the job is due once more", func() bool { return c.asked.Load() > before+10 })
	if runs.Load() != permitted || c.permitted.Load() != permitted {
		t.Error("a job ran after the leadership")
	}
	if err := adapter.Elector(e).IsLeader(context.Background()); !errors.Is(err, batuta.ErrNotLeading) {
		t.Errorf("IsLeader: %v", err)
	}
}

// A leadership ends only after a run that has begun in it.
func TestLockerHoldsTheLeadership(t *testing.T) {
	e := batutatest.NewElector(t)
	begun, end := make(chan struct{}, 1), make(chan struct{})
	var running atomic.Bool
	schedule(t, gocron.WithDistributedLocker(adapter.Locker(e)), func() {
		running.Store(true)
		select {
		case begun <- struct{}{}:
		default:
		}
		<-end
		running.Store(false)
	})
	e.Elect()
	<-begun
	lost := make(chan bool)
	go func() {
		e.Lose(batuta.CauseResigned) // returns when the work has
		lost <- running.Load()
	}()
	select {
	case <-lost:
		t.Fatal("the leadership ended while the job ran")
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	if <-lost {
		t.Error("the leadership ended while the job ran")
	}
}
