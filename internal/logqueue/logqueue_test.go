package logqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/slogtest"
	"testing/synctest"
	"time"

	"github.com/batuta-dev/batuta/internal/logqueue"
)

// gate is a log that is read only while it is open.
type gate struct {
	open    chan struct{}
	mu      sync.Mutex
	written bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.written.Write(b)
}

func (g *gate) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Split(strings.TrimSuffix(g.written.String(), "\n"), "\n")
}

func (g *gate) logger(q *logqueue.Queue) *slog.Logger {
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(q.Handler(slog.NewTextHandler(g, &slog.HandlerOptions{ReplaceAttr: noTime})))
}

func TestALogThatNobodyReadsStopsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, g := logqueue.New(), &gate{open: make(chan struct{})}
		log := g.logger(q)
		log.Info("number", "n", 0)
		synctest.Wait() // that one is being written
		for n := 1; n <= logqueue.Size+5; n++ {
			log.Info("number", "n", n)
		}
		if q.Dropped() != 5 {
			t.Errorf("%d records were dropped, want 5", q.Dropped())
		}
		close(g.open)
		q.Close(time.Hour)
		lines := g.lines()
		for n := range logqueue.Size + 1 {
			if want := fmt.Sprintf("level=INFO msg=number n=%d", n); lines[n] != want {
				t.Fatalf("line %d is %q, want %q", n, lines[n], want)
			}
		}
		want := `level=WARN msg="log records were dropped: they came faster than they were read" dropped=5 since_start=5`
		if rest := lines[logqueue.Size+1:]; len(rest) != 1 || rest[0] != want {
			t.Errorf("the log ends with %q, want %q", rest, want)
		}
	})
}

func TestCloseDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, g := logqueue.New(), &gate{open: make(chan struct{})}
		g.logger(q).Info("nobody reads this")
		began := time.Now()
		q.Close(time.Minute)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("Close took %v", took)
		}
		close(g.open)
	})
}

func TestOf(t *testing.T) {
	q := logqueue.New()
	defer q.Close(time.Second)
	log := slog.New(q.Handler(slog.DiscardHandler))
	if logqueue.Of(log.With("a", 1).WithGroup("g")) != q || logqueue.Of(slog.Default()) != nil {
		t.Error("a logger's queue is not known")
	}
	if logqueue.Of(slog.Default()).Dropped() != 0 {
		t.Error("no queue has dropped something")
	}
}

func TestHandlerKeepsTheContract(t *testing.T) {
	var out bytes.Buffer
	q := logqueue.New()
	closed := sync.OnceFunc(func() { q.Close(time.Minute) })
	err := slogtest.TestHandler(q.Handler(slog.NewJSONHandler(&out, nil)), func() (all []map[string]any) {
		closed() // what was logged has been written
		for line := range strings.Lines(out.String()) {
			m := map[string]any{}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			all = append(all, m)
		}
		return all
	})
	if err != nil {
		t.Error(err)
	}
}

// Close loses no record, whatever the writer does at that moment: it may have found the queue empty just before.
func TestCloseWritesWhatWaits(t *testing.T) {
	for range 10_000 {
		var n int
		q := logqueue.New()
		log := slog.New(q.Handler(counts{slog.DiscardHandler, &n}))
		log.Info("first")
		log.Info("last")
		q.Close(time.Minute)
		if n != 2 {
			t.Fatalf("%d of 2 records are written", n)
		}
	}
}

// counts counts the records.
type counts struct {
	slog.Handler
	n *int
}

func (c counts) Enabled(context.Context, slog.Level) bool { return true }

func (c counts) Handle(context.Context, slog.Record) error {
	*c.n++
	return nil
}
