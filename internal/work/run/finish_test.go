package run

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
	"github.com/batuta-dev/batuta/internal/work/schedule"
)

// heard is a log that tells when a line has words in it.
type heard struct {
	words string
	once  sync.Once
	came  chan struct{}
}

func (h *heard) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(h.words)) {
		h.once.Do(func() { close(h.came) })
	}
	return len(line), nil
}

// A run that is under way when its election is handed over ends by itself, in its time;
// where that is over, or this process ends, it is stopped. The next run waits for it.
func TestARunMayEndBeforeItsElectionIsHandedOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		finish time.Duration
		then   func(r *Runner, stop context.CancelCauseFunc)
		hears  string
		again  bool
	}{
		{"it ends by itself", runtest.Patience, func(r *Runner, _ context.CancelCauseFunc) { r.Signal(syscall.SIGUSR2) }, "user defined signal 2", true},
		{"its time is over", time.Millisecond, func(*Runner, context.CancelCauseFunc) {}, "terminated", true},
		{"this process ends", 2 * runtest.Patience, func(_ *Runner, stop context.CancelCauseFunc) { stop(StopSignal{syscall.SIGINT}) }, "interrupt", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFactory(t)
			node, err := batuta.Start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()})
			if err != nil {
				t.Fatal(err)
			}
			defer node.Close()
			log := &heard{words: "may end by itself", came: make(chan struct{})}
			r, err := New(Config{Argv: f.argv("quit=0", "lock="+filepath.Join(t.TempDir(), "lock")), Grace: time.Second, Finish: c.finish, Plan: &Plan{Schedule: schedule.Schedule{Ticks: often{}}}, Heartbeat: 100 * time.Millisecond,
				T: statusOf(node).Timing.T(), Program: os.Args[0], Guard: []string{os.Args[0], "guard"}, Logger: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			ctx, stop := context.WithCancelCause(t.Context())
			e, over := node.Election("job"), make(chan error, 1)
			go func() { over <- r.Run(ctx, Under(node, e)) }()
			w := f.Next()
			if err := e.Resign(t.Context()); err != nil {
				t.Fatal(err)
			}
			select {
			case <-log.came:
			case <-time.After(runtest.Patience):
				t.Fatal("the run was given no time to end")
			}
			c.then(r, stop)
			f.Awaits(w, c.hears)
			f.Dies(w)
			if c.again {
				if next := f.Next(); next.Token == w.Token || !next.Alone {
					t.Errorf("the next run is under %s, alone %v, after %s", next.Token, next.Alone, w.Token)
				}
			}
			stop(nil)
			if err := <-over; err != nil {
				t.Error(err)
			}
		})
	}
}

// vouched is a node whose lead lasts for so long.
type vouched struct {
	Node
	until time.Time
	err   error
}

func (v vouched) Lease(context.Context) (batuta.Lease, error) {
	return batuta.Lease{Left: time.Until(v.until)}, v.err
}

func (vouched) Done() <-chan struct{} { return nil }

// Others may take a lead for over whose time has passed: nothing of it goes on.
func TestARunEndsWithTheTimeOfItsLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			node vouched
			took time.Duration
		}{
			{vouched{until: time.Now().Add(time.Hour)}, time.Minute},
			{vouched{until: time.Now().Add(time.Hour), err: errors.New("closed")}, time.Second},
			{vouched{until: time.Now().Add(70 * time.Second)}, 10 * time.Second}, // after the first two
		} {
			r, began := &Runner{cfg: Config{Finish: time.Minute, Heartbeat: time.Second}, run: t.Context()}, time.Now()
			r.letFinish(t.Context(), c.node)
			if took := time.Since(began); took < c.took-time.Second || took > c.took+time.Second {
				t.Errorf("it went on for %v, not %v", took, c.took)
			}
		}
	})
}
