package batuta

import (
	"context"

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
