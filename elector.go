package batuta

import (
	"context"
	"iter"
)

// Elector is one election as one candidate takes part in it: a [Node], and whatever else keeps
// the same promises. Module github.com/batuta-dev/batuta/engines has it on engines
// that are run already, such as etcd. Package electiontest/electortest tries whether one keeps them:
//
//   - Views come in order: lost for one leadership before leader for the next, tokens that never decrease.
//   - The work of a leadership has returned before the next leadership begins, wherever, unless its
//     process or its connections have failed.
//   - IsLeader compares clocks; it is false before anybody could tell that the leadership is lost.
//   - After Close nothing runs, and every method returns at once, with [ErrClosed] where it has an error.
type Elector interface {
	// Lead runs fn once per leadership of this candidate, with a context that is cancelled when it
	// ends; see [Node.Lead].
	Lead(ctx context.Context, fn func(ctx context.Context, l Leadership) error) error
	// Watch yields the views of this candidate in order, the present one first; see [Node.Watch].
	Watch(ctx context.Context) iter.Seq2[View, error]
	// Leader is the present view. It names this candidate only while IsLeader does.
	Leader() View
	// IsLeader reports whether this candidate leads right now.
	IsLeader() bool
	// Resign steps down; no effect when not leading. The work is told, and waited for, before another leads.
	Resign(ctx context.Context) error
	// Close gives the lead away when the work has returned, and ends the candidate.
	Close() error
}

var _ Elector = (*Node)(nil)
