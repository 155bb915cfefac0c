package batuta

import (
	"context"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// SetHealthy says whether this member is fit to lead; it is at first. One that is
// not gives up the lead and does not stand until it is fit again. It is for a service
// without a [Config].Healthy, whose answer takes its place whenever that changes. It returns when
// that is decided here, with ctx's error, or with [ErrClosed].
func (n *Node) SetHealthy(ctx context.Context, fit bool) error {
	return n.setHealthy(ctx, fit, "SetHealthy(false) was called")
}

// SetUnhealthy is [Node.SetHealthy] of false, with the reason that [Status], events
// and the log give.
func (n *Node) SetUnhealthy(ctx context.Context, why string) error {
	return n.setHealthy(ctx, false, why)
}

// setHealthy does that; words say what is wrong.
func (n *Node) setHealthy(ctx context.Context, fit bool, words string) error {
	return n.call(ctx, func() {
		n.healthError = words
		if !n.closing { // who leaves is fit for nothing any more
			n.emit(election.Event{Kind: election.Health, On: fit})
		}
	})
}

// healthInterval is the time between two checks of a member's health, and what a
// check may take.
const healthInterval = time.Second

// checkHealth tells the Machine what Config.Healthy finds. Until its first check a
// member counts as unhealthy: it must not lead unfit, be it for a moment.
func (n *Node) checkHealth(ctx context.Context) {
	fit, words := false, ""
	for first := true; ; first = false {
		err := n.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if now := err == nil; now != fit || first || err != nil && err.Error() != words {
			changed := now != fit || first
			if fit, words = now, ""; err != nil {
				words = err.Error()
			}
			switch {
			case !changed: // the same, in other words
			case err != nil:
				n.cfg.Logger.Warn("this member is unhealthy", "error", err)
			default:
				n.cfg.Logger.Info("this member is healthy")
			}
			if n.setHealthy(ctx, fit, words) != nil {
				return
			}
		}
		select {
		case <-time.After(healthInterval):
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthInterval)
	defer cancel()
	return n.cfg.Healthy(ctx)
}
