package batuta

import (
	"context"
	"time"
)

// leased is a core whose leaderships hold for a lease, not for as long as nobody says
// otherwise.
type leased interface {
	// Guard is until when what its leaderships have begun may still run; past their end,
	// while the work stops. Zero: nothing may.
	Guard() time.Time
}

// leasing is an Algorithm that gives such leases, of that length for a silence of t.
type leasing interface {
	Lease(t time.Duration) time.Duration
}

// Lease is for how long what this member's leadership has begun may still run if
// the node does nothing more from now on, and for how long at most. While its work stops
// the lease goes on; nobody else leads before it has ended. With a best-effort Algorithm
// there is none, and both are 0. Without a leadership left is 0 or less. It comes back
// from the node's loop, with ctx's error, or with [ErrClosed].
func (n *Node) Lease(ctx context.Context) (left, whole time.Duration, err error) {
	if a, ok := n.cfg.Algorithm.(leasing); ok {
		whole = a.Lease(n.timeout)
	}
	err = n.call(ctx, func() {
		c, ok := n.machine.(leased)
		if !ok {
			return
		}
		if until := c.Guard(); !until.IsZero() {
			left = until.Sub(n.now())
		}
	})
	return left, whole, err
}

// Lease is for how long what this member's leadership of the election has begun may still
// run if the node hears nothing more from now on, and for how long at most; while its work
// stops that goes on, as long as the coordinator vouches for it. Nobody else leads before it
// has ended; with a best-effort Algorithm that is no promise, and whole is 0. Without a
// leadership, or after one that time has ended, left is 0 or less. For the rest it is as
// [Node.Lease].
func (e *Election) Lease(ctx context.Context) (left, whole time.Duration, err error) {
	switch {
	case e.err != nil:
		return 0, 0, e.err
	case e.own():
		return e.node.Lease(ctx)
	}
	n := e.node
	err = n.call(ctx, func() {
		whole = n.named.Lease()
		if until := n.named.Vouched(e.name); !until.IsZero() {
			left = until.Sub(n.now())
		}
	})
	return left, whole, err
}
