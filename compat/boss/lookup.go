package boss

import (
	"context"
	"time"
)

// Between two lookups of the names to join: after one that has failed, and else.
const (
	lookupRetry = time.Second
	lookupPause = 5 * time.Second
)

// lookupAll looks the names up again and again: those that they stand for change.
func (n *connections) lookupAll() {
	pause, failing := lookupRetry, false
	for {
		select {
		case <-time.After(pause):
		case <-n.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(n.ctx, lookupPause)
		peers, err := lookup(ctx, n.site.Join)
		cancel()
		if pause = lookupPause; err != nil {
			pause = lookupRetry
		}
		if err != nil && !failing && n.ctx.Err() == nil {
			n.log.Warn("cannot resolve a name to join through; trying again", "error", err)
		}
		failing = err != nil
		n.Post(func() {
			for _, p := range peers {
				n.enlist(p)
			}
		})
	}
}
