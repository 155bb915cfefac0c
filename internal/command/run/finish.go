package run

import (
	"context"
	"errors"
	"time"

	"github.com/batuta-dev/batuta"
)

// finishing returns the context of a run under a leadership with context ctx. It ends with ctx,
// unless the election is handed over: the run then has [Config].Finish to end by itself, and the
// next leader begins afterwards. The caller must call end.
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
			ctx = r.run // its cause is the signal
		}
		cancel(context.Cause(ctx))
	})
	return running, func() {
		stop()
		cancel(nil)
	}
}

// letFinish returns when a run is over, has used up its time, or may not continue: this process
// ends, or the leadership is about to expire.
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
