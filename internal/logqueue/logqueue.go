// Package logqueue writes log records on a goroutine of its own: a log that is not read
// stops no other goroutine.
package logqueue

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// Size is how many records may wait to be written. Further records are dropped and
// counted.
const Size = 1024

// Queue is the records on their way to their handlers, in order, by a single goroutine.
// Once it is empty it logs, as a warning, how many records it has dropped.
type Queue struct {
	records chan *record
	dropped atomic.Uint64
	ending  chan struct{}
	done    chan struct{}
}

type record struct {
	ctx     context.Context
	handler slog.Handler
	slog.Record
}

// New gives an empty queue. The caller must call Close.
func New() *Queue {
	q := &Queue{records: make(chan *record, Size), ending: make(chan struct{}), done: make(chan struct{})}
	go q.write()
	return q
}

// Handler puts the records for next into the queue.
func (q *Queue) Handler(next slog.Handler) slog.Handler { return &handler{next, q} }

// Of is the queue of log's records; nil: there is none.
func Of(log *slog.Logger) *Queue {
	if h, ok := log.Handler().(*handler); ok {
		return h.queue
	}
	return nil
}

// Dropped is how many records were not written because the queue was full. A nil
// queue drops none.
func (q *Queue) Dropped() uint64 {
	if q == nil {
		return 0
	}
	return q.dropped.Load()
}

// Close returns when all waiting records have been written, or after wait. Later records
// are dropped. A handler that never returns keeps its goroutine.
func (q *Queue) Close(wait time.Duration) {
	close(q.ending)
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-q.done:
	case <-late.C:
	}
}

func (q *Queue) write() {
	defer close(q.done)
	var reported uint64
	for {
		var r *record
		select {
		case r = <-q.records:
		case <-q.ending:
			select {
			case r = <-q.records:
			default:
				return
			}
		}
		_ = r.handler.Handle(r.ctx, r.Record) // a log that fails cannot report it
		if n := q.Dropped(); n > reported && len(q.records) == 0 {
			report(r.handler, n-reported, n)
			reported = n
		}
	}
}

// report logs how many records are missing in the log.
func report(h slog.Handler, missing, all uint64) {
	if !h.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	r := slog.NewRecord(time.Now(), slog.LevelWarn, "log records were dropped: they came faster than they were read", 0)
	r.AddAttrs(slog.Uint64("dropped", missing), slog.Uint64("since_start", all))
	_ = h.Handle(context.Background(), r)
}

// handler is the end of a queue where records enter.
type handler struct {
	next  slog.Handler
	queue *Queue
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.next.WithAttrs(attrs), h.queue}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.next.WithGroup(name), h.queue}
}

// Handle never waits.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	select {
	case h.queue.records <- &record{context.WithoutCancel(ctx), h.next, r.Clone()}:
	default:
		h.queue.dropped.Add(1)
	}
	return nil
}
