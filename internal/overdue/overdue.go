// Package overdue logs work that goes on after it was asked to stop.
package overdue

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// After is how long work may go on, once its context has ended, before the log has it. It is logged again after
// twice the time, four times, and so on, and at least every Again.
const (
	After = 3 * time.Second
	Again = 5 * time.Minute
)

// Watch logs while the work of a leadership of that election, which runs under ctx, goes on after ctx has ended, with how
// long it does ("for"). The caller calls end when the work has returned.
func Watch(ctx context.Context, log *slog.Logger, election string, token fmt.Stringer) (end func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { follow(ctx, log, election, token, over) })
	return func() {
		stop()
		close(over)
	}
}

func follow(ctx context.Context, log *slog.Logger, election string, token fmt.Stringer, over <-chan struct{}) {
	began, wait := time.Now(), After
	for logged := false; ; logged = true {
		next := time.NewTimer(wait)
		select {
		case <-over:
			next.Stop()
			if logged {
				log.Info("the work has returned", "for", time.Since(began).Round(time.Millisecond))
			}
			return
		case <-next.C:
		}
		if !logged {
			log = log.With("election", election, "token", token.String()) // most work ends before
		}
		log.Warn("work goes on after its context has ended; this member does not hand over, or lead again, before it returns",
			"for", time.Since(began).Round(time.Millisecond), "cause", context.Cause(ctx))
		if logged {
			wait = min(2*wait, Again)
		}
	}
}
