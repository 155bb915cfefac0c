package follow

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"syscall"
	"time"
)

// retry is the time between two attempts to print while that fails.
const retry = time.Second

// Print calls print with what [On] yields, until watch ends or standard output has no reader. If print
// fails otherwise, such as on a full disk, Print calls it each second with the error behind. Once that is
// printed, Print goes on with what watch yields then: first the state at that time. While print fails,
// Print also ends with ctx.
func Print[E any](ctx context.Context, log *slog.Logger, behind error, watch func(context.Context) iter.Seq2[E, error], print func(E, error) error) {
	failing := false
	for next := watch; ; {
		var failed error
		for e, err := range On(context.Background(), behind, next) {
			if failed = print(e, err); failed != nil {
				break
			}
			if failing {
				log.Info("events are printed again")
			} else if err != nil {
				log.Warn("events were read too slowly and some are left out: read them faster, or have fewer with --events off", "error", err)
			}
			failing = false
		}
		switch {
		case failed == nil:
			return
		case errors.Is(failed, syscall.EPIPE):
			log.Warn("events are not printed any more: standard output cannot be written", "error", failed)
			return
		case !failing:
			log.Warn("events are left out until standard output can be written", "error", failed)
		}
		failing = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
		next = From(func(yield func(E, error) bool) { yield(*new(E), behind) }, watch)
	}
}

// Lines returns a writer, not safe for concurrent use. If w took only a part of a line, the writer ends
// that line before the next.
func Lines(w io.Writer) io.Writer { return &lines{w: w} }

type lines struct {
	w   io.Writer
	cut bool // the last line written has no end
}

// Write takes whole lines.
func (l *lines) Write(p []byte) (int, error) {
	if l.cut {
		if _, err := l.w.Write([]byte("\n")); err != nil {
			return 0, err
		}
		l.cut = false
	}
	n, err := l.w.Write(p)
	if n > 0 {
		l.cut = p[n-1] != '\n'
	}
	return n, err
}
