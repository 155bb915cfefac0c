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

// Lease tells for how much longer the work of this member's leadership may run if the
// node renews nothing from now on (left), and how long a lease is when it has just been
// renewed (whole). Nobody else leads before it has ended, and it is renewed for as long as
// the work takes to stop. With a best-effort Algorithm there is none, and both are 0.
// Without a leadership left is 0 or less. Its error is ctx's, or [ErrClosed].
func (n *Node) Lease(ctx context.Context) (left, whole time.Duration, err error) {
	if a, ok := n.cfg.Algorithm.(leasing); ok {
		whole = a.Lease(n.timeout)
	}
	left, err = ask(ctx, n, func() (left time.Duration) {
		if c, ok := n.machine.(leased); ok && !c.Guard().IsZero() {
			left = c.Guard().Sub(n.now())
		}
		return left
	})
	return left, whole, err
}

// Lease is [Node.Lease] for this election: for how much longer the work of this member's
// leadership of it may run if the node hears nothing more from its coordinator (left), and for
// how long after a word of the coordinator's (whole). The coordinator renews it for as long as
// the work takes to stop. Under a best-effort Algorithm another may lead before it has ended,
// and whole is 0. Without a leadership left is 0 or less.
func (e *Election) Lease(ctx context.Context) (left, whole time.Duration, err error) {
	switch {
	case e.err != nil:
		return 0, 0, e.err
	case e.own():
		return e.node.Lease(ctx)
	}
	n := e.node
	lease, err := ask(ctx, n, func() (l struct{ left, whole time.Duration }) {
		l.whole = n.named.Lease()
		if until := n.named.Vouched(e.name); !until.IsZero() {
			l.left = until.Sub(n.now())
		}
		return l
	})
	return lease.left, lease.whole, err
}
