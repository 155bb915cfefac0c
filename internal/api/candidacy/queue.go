package candidacy

import (
	"cmp"
	"context"
	"errors"

	"github.com/batuta-dev/batuta"
)

// queue has the candidacies of an agent for an election: each leads under a token of its own, in order.
// The desk's lock guards it.
type queue struct {
	desk     *Desk
	election Election
	weight   int          // of the election here: its first candidacy's, also when that has ended
	waiting  []*candidacy // the first leads next
	holder   *candidacy   // that leads, or whose work has still to stop
	cancel   context.CancelFunc
}

// run makes the member a candidate of the election until no candidacy is left.
func (q *queue) run() {
	for {
		ctx, ok := q.more()
		if !ok {
			return
		}
		if err := q.election.Lead(ctx, q.lead); err != nil && ctx.Err() == nil {
			q.fail(err)
		}
	}
}

// more gives the context of the next candidacies; false: there are none, and the queue is gone.
func (q *queue) more() (context.Context, bool) {
	d := q.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.cancel != nil {
		q.cancel()
	}
	if len(q.waiting) == 0 {
		delete(d.queues, q.election.Name())
		return nil, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	return ctx, true
}

// fail ends all candidacies: the member cannot be a candidate.
func (q *queue) fail(err error) {
	d := q.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if !errors.Is(err, batuta.ErrClosed) {
		d.bounded.Warn(d.cfg.Log, "", "failed"+q.election.Name(), "this member cannot stand for an election of its clients", "election", q.election.Name(), "error", err)
	}
	for len(q.waiting) > 0 {
		q.waiting[0].failure = err
		d.end(q.waiting[0], failed)
	}
}

// lead is the work of a leadership: it returns when the client's work has stopped.
func (q *queue) lead(ctx context.Context, l batuta.Leadership) error {
	c, stopped := q.next(l.Token)
	if c == nil {
		return nil
	}
	defer q.free(c)
	select {
	case <-ctx.Done():
		<-cmp.Or(q.lose(c, ctx), stopped)
	case <-stopped:
	}
	return nil
}

// next gives the leadership to the first that waits, and a channel that is closed when its work has stopped, unless
// the leadership is lost before; nil: none waits.
func (q *queue) next(token batuta.Token) (c *candidacy, stopped <-chan struct{}) {
	q.desk.mu.Lock()
	defer q.desk.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil, nil
	}
	c = q.waiting[0]
	q.holder, q.waiting = c, q.waiting[1:]
	c.turn(Leading, token)
	return c, c.changed
}

// lose reports a loss to the client. From now on nothing extends its bound. The channel is closed when the work has
// stopped; nil: it already has.
func (q *queue) lose(c *candidacy, ctx context.Context) (stopped <-chan struct{}) {
	d := q.desk
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.gone || c.state != Leading {
		return nil
	}
	if lost, ok := errors.AsType[*batuta.LostError](context.Cause(ctx)); ok {
		c.cause = lost.Cause
	}
	if c.stream {
		d.expireAfter(c, c.bound, unacknowledged)
	}
	c.turn(Lost, c.token)
	return c.changed
}

// free ends a leadership: its candidacy waits again, unless it has ended.
func (q *queue) free(c *candidacy) {
	q.desk.mu.Lock()
	defer q.desk.mu.Unlock()
	q.holder = nil
	if !c.gone {
		q.waiting = append(q.waiting, c)
	}
	q.stopIfEmpty()
}

// stopIfEmpty ends the member's own candidacy if no candidacy of a client is left.
func (q *queue) stopIfEmpty() {
	if len(q.waiting) == 0 && q.holder == nil && q.cancel != nil {
		q.cancel()
	}
}
