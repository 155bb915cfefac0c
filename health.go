package batuta

import (
	"context"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// SetHealthy says whether this member is fit to lead; it is at first. One that is
// not gives up the lead and does not stand until it is fit again. It returns when
// that is decided here, with ctx's error, or with [ErrClosed].
func (n *Node) SetHealthy(ctx context.Context, fit bool) error {
	return n.call(ctx, func() {
		if !n.closing { // who leaves is fit for nothing any more
			n.emit(election.Event{Kind: election.Health, On: fit})
		}
	})
}

// healthInterval is the time between two checks of a member's health, and what a
// check may take.
const healthInterval = time.Second

// checkHealth tells the Machine what Config.Healthy finds. The member takes part
// only after its first check: it must not lead unfit, be it for a moment.
func (n *Node) checkHealth(ctx context.Context) {
	fit := true
	for begun := false; ; begun = true {
		was := fit
		err := n.check(ctx)
		if fit = err == nil; fit != was {
			n.logHealth(err)
		}
		if n.call(ctx, func() {
			if fit != was {
				n.emit(election.Event{Kind: election.Health, On: fit && !n.closing})
			}
			if !begun {
				n.takePart()
			}
		}) != nil {
			return
		}
		select {
		case <-time.After(healthInterval):
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) logHealth(err error) {
	if err != nil {
		n.cfg.Logger.Warn("this member is unhealthy", "error", err)
	} else {
		n.cfg.Logger.Info("this member is healthy again")
	}
}

func (n *Node) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthInterval)
	defer cancel()
	return n.cfg.Healthy(ctx)
}
