package run

import (
	"context"
	"errors"
	"time"

	"github.com/batuta-dev/batuta"
)

// finishing gives the context of a run under a leadership, which ctx has. It ends as that
// does, unless the election is handed over: the run then has [Config].Finish to end by
// itself, and the next leader begins when it has. The caller must call end.
func (r *Runner) finishing(ctx context.Context, node Node) (running context.Context, end func()) {
	if r.cfg.Finish == 0 || r.ticks == nil {
		return ctx, func() {}
	}
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		lost, ok := errors.AsType[*batuta.LostError](context.Cause(ctx))
		if ok && lost.Cause == batuta.CauseResigned {
			r.cfg.Logger.Info("the command may end by itself before another takes over", "token", lost.Token.String(), "within", r.cfg.Finish)
			r.letFinish(running, node)
		}
		if r.run.Err() != nil {
			ctx = r.run // which says by which signal
		}
		cancel(context.Cause(ctx))
	})
	return running, func() {
		stop()
		cancel(nil)
	}
}

// letFinish returns when a run is over, has had its time, or may not go on: this process
// ends, or others are about to take its lead for over.
func (r *Runner) letFinish(running context.Context, node Node) {
	timeout := time.NewTimer(r.cfg.Finish)
	defer timeout.Stop()
	look := time.NewTicker(r.cfg.Heartbeat)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if l, err := node.Lease(running); err != nil || l.Left <= 0 {
				return
			}
		case <-running.Done():
			return
		case <-timeout.C:
			return
		case <-r.run.Done():
			return
		case <-node.Done():
			return
		}
	}
}
