package river_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"

	"github.com/batuta-dev/batuta"
	adapter "github.com/batuta-dev/batuta/adapters/river"
	"github.com/batuta-dev/batuta/batutatest"
)

type report struct{}

func (report) Kind() string { return "report" }

type reporter struct {
	river.WorkerDefaults[report]
	done chan struct{}
}

func (r *reporter) Work(context.Context, *river.Job[report]) error {
	r.done <- struct{}{}
	return nil
}

// Periodic jobs run while this candidate leads, in its second leadership too, and only then.
func TestTheLeaderEnqueues(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "river.sqlite"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil); err != nil {
		t.Fatal(err)
	}
	e, done := batutatest.NewElector(t), make(chan struct{}, 1000)
	config := func() *river.Config {
		workers := river.NewWorkers()
		river.AddWorker(workers, &reporter{done: done})
		return &river.Config{Workers: workers, Logger: quiet, FetchPollInterval: 100 * time.Millisecond,
			Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}}}
	}
	worker := config() // as each member has one
	worker.LeaderElectionDisabled = true
	works, err := river.NewClient(riversqlite.New(db), worker)
	if err != nil {
		t.Fatal(err)
	}
	if err := works.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueued := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM river_job").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		result <- adapter.Lead(ctx, e, func() (*river.Client[*sql.Tx], error) {
			leads := config()
			leads.PeriodicJobs = []*river.PeriodicJob{river.NewPeriodicJob(river.PeriodicInterval(time.Second),
				func() (river.JobArgs, *river.InsertOpts) { return report{}, nil }, nil)}
			return river.NewClient(riversqlite.New(db), leads)
		})
	}()
	for range 2 {
		e.Elect()
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("the leader's job does not run")
		}
		e.Lose(batuta.CauseResigned) // returns when the client has stopped
		before := enqueued()
		time.Sleep(1500 * time.Millisecond) // longer than its interval
		if after := enqueued(); after != before {
			t.Errorf("%d jobs were enqueued without a leader", after-before)
		}
		for len(done) > 0 { // of this leadership
			<-done
		}
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("Lead: %v", err)
	}
	if err := works.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
