package batuta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/clock"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/core/named"
	"github.com/batuta-dev/batuta/internal/logqueue"
	"github.com/batuta-dev/batuta/internal/net/network"
)

// calls are how other goroutines have the loop do something.
type calls struct {
	commands chan command
	running  chan struct{}      // closed by Run
	turn     network.Turn       // held by the goroutine that steps the Machine
	ending   context.Context    // is over when the node is to hand over and end
	close    context.CancelFunc // ends it
	done     chan struct{}
	err      error // valid once done is closed
}

// command is something to do on the loop; done is closed when all that it led
// to at once has been done too.
type command struct {
	do   func()
	done chan struct{}
}

// call does f on the loop, and waits until all that comes of it at once is done.
// It gives ctx's error if that comes first (f may be done all the same, later), or
// why the node has ended.
func (c *calls) call(ctx context.Context, f func()) error {
	next := command{f, make(chan struct{})}
	select {
	case c.commands <- next:
	case <-c.done:
		return c.closed()
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-next.done:
		return nil
	case <-ctx.Done():
		return ctx.Err() // the loop has begun with it, and is stuck
	}
}

// ask gives what f returns on the loop, or the error of call: then f may still run, and
// what it returns is dropped.
func ask[T any](ctx context.Context, c *calls, f func() T) (T, error) {
	answer := make(chan T, 1)
	if err := c.call(ctx, func() { answer <- f() }); err != nil {
		var none T
		return none, err
	}
	return <-answer, nil
}

// try does f on the loop, and gives call's error, or that of f.
func (c *calls) try(ctx context.Context, f func() error) error {
	refused, err := ask(ctx, c, f)
	return cmp.Or(err, refused)
}

// closed is what a node that has ended answers.
func (c *calls) closed() error {
	<-c.done
	if c.err != nil {
		return c.err
	}
	return ErrClosed
}

// ended is why a wait has: ctx's error, or that of a node that has ended.
func (c *calls) ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.closed()
}

// awaitRun returns when the node runs, or why it does not.
func (c *calls) awaitRun(ctx context.Context) error {
	if ctx.Err() == nil {
		select {
		case <-c.running:
			return nil
		case <-ctx.Done():
		case <-c.done:
		}
	}
	select {
	case <-c.done:
		return c.closed()
	default:
		return ctx.Err()
	}
}

// ground is what the parts of a node stand on: what it is, its time, the cores that it steps, and what
// is to be done next. No part reaches the Node, which connects them.
type ground struct {
	calls

	id          ID
	cfg         Config // defaults filled in
	incarnation uint64
	addr        string
	timeout     time.Duration   // T = 2·t_max + t_process
	logs        *logqueue.Queue // nil: nothing is logged
	ownLogs     bool            // logs ends with the node

	born    time.Time
	clock   *clock.Clock // the time since born, for the Machine too
	lasting atomic.Int64 // until when on it a leadership lasts if the loop does nothing more; see prolong
	history *history

	// Used in a turn of the node.
	machine    machine.Core
	named      *named.Core      // goes around machine; nil: there is only the cluster's own election
	stepped    time.Duration    // when it was stepped last, on clock
	steppedAgo time.Duration    // and how long the time before was ago then
	todo       []election.Event // to step the Machine with
	wanted     outcome          // of calls to named
	called     bool             // named was called
	timer      *time.Timer
	armed      time.Time // what timer is set to
	over       bool      // the Machine takes no more steps
	closing    bool
}

// now is the Machine's time.
func (g *ground) now() time.Time { return g.born.Add(g.clock.Now()) }

// view is what Watch has yielded last.
func (g *ground) view() View { return g.history.Last().Event.View }

// emit has the Machine stepped with ev, after what is already waiting.
func (g *ground) emit(ev election.Event) { g.todo = append(g.todo, ev) }

// outcome is what a step, or a call to named, asks for and has changed.
type outcome struct {
	actions []election.Action
	changes []named.Change
	replies []named.Reply
}

// outcome gives it; the core reuses the lists at its next step.
func (g *ground) outcome(actions []election.Action) (o outcome) {
	o.actions = actions
	if g.named != nil {
		o.changes, o.replies = g.named.Changes(), g.named.Replies()
	}
	return o
}

// perform has the outcome of a call to named published, before the Machine is stepped again.
func (g *ground) perform(actions []election.Action) {
	o, all := g.outcome(actions), &g.wanted
	all.actions, all.changes, all.replies = append(all.actions, o.actions...), append(all.changes, o.changes...), append(all.replies, o.replies...)
	g.called = true
}

// advance steps the Machine, and what goes around it.
func (g *ground) advance(ev election.Event) outcome {
	passed := g.clock.Now()
	g.stepped, g.steppedAgo = passed, passed-g.stepped
	if g.named == nil {
		return g.outcome(g.machine.Step(g.born.Add(passed), ev))
	}
	return g.outcome(g.named.Step(g.born.Add(passed), ev))
}

// arm sets the timer to the Machine's deadline.
func (g *ground) arm() {
	at, due := g.machine.Deadline()
	if g.named != nil {
		at, due = g.named.Deadline()
	}
	if !due {
		g.timer.Stop()
		g.armed = time.Time{}
		return
	}
	if at != g.armed {
		g.timer.Reset(at.Sub(g.now()))
		g.armed = at
	}
}

// late is how long ago the loop should have stepped the Machine, for its leadership
// to last; not positive while that is to come.
func (g *ground) late() time.Duration {
	return g.clock.Now() - time.Duration(g.lasting.Load())
}

// prolong stores until when the leadership lasts. After a stall the loss is published
// before: IsLeader stays false until then. A new leadership is published behind it:
// IsLeader is true for whatever receives the event.
func (g *ground) prolong() { g.lasting.Store(int64(g.lasts())) }

// lasts is until when, on the node's clock, its leadership lasts if the loop does
// nothing more.
func (g *ground) lasts() time.Duration {
	if h, ok := g.machine.(machine.Leaser); ok { // it is in force until a known time
		until, leads := h.Lease()
		if !leads {
			return 0
		}
		return until.Sub(g.born)
	}
	return g.stepped + g.cfg.timing().Bears()
}

// silence is how long ago the last sign of a leadership came that ends now.
func (g *ground) silence(token Token, cause Cause) time.Duration {
	switch cause {
	case election.CauseResigned, election.CauseRemoved, election.CauseStopped:
		return 0 // it was announced
	}
	if token.Leader.ID == g.id {
		return g.steppedAgo
	}
	for _, m := range g.machine.Members() {
		if m.ID == token.Leader.ID && !m.Heard.IsZero() {
			return max(0, g.stepped-m.Heard.Sub(g.born))
		}
	}
	return 0 // it was known from third members only
}

// paused is what the core knows of a pause.
func (g *ground) paused() (until time.Time, leader ID) {
	if c, ok := g.machine.(interface{ Paused() (time.Time, ID) }); ok {
		until, leader = c.Paused()
	}
	if !until.After(g.now()) {
		return time.Time{}, ""
	}
	return time.Now().Add(until.Sub(g.now())).Round(0), leader
}

// leave begins the end: work is cancelled, and leadership is handed over when
// that has returned.
func (g *ground) leave() {
	if !g.closing {
		g.closing = true
		g.emit(election.Event{Kind: election.Closing})
	}
}

// fail ends the node because of err.
func (g *ground) fail(err error) {
	if g.closing {
		return
	}
	g.err = err
	g.cfg.Logger.Error("giving up", "error", err)
	g.leave()
	g.close() // wakes the loop, if this is not its turn
}

// halt ends the node because the Machine can take no further part.
func (g *ground) halt(a election.Action) {
	if errors.Is(a.Err, election.ErrSameID) {
		g.fail(config("id %s is in use by the process at %s, where the member list has it: give each process its own id", g.id, election.Shown(a.Address)))
		return
	}
	g.fail(fmt.Errorf("member %s can take no further part: %w", g.id, a.Err))
}

// queueLogs has the log written outside the loop: a log without a reader must not
// stop an election. A logger that goes by a queue already keeps that.
func (g *ground) queueLogs() {
	h := g.cfg.Logger.Handler()
	if g.logs = logqueue.Of(g.cfg.Logger); g.logs != nil || h == slog.DiscardHandler {
		return
	}
	g.logs, g.ownLogs = logqueue.New(), true
	g.cfg.Logger = slog.New(g.logs.Handler(h))
}

// closeLogs writes what is left, if it is read within T.
func (g *ground) closeLogs() {
	if g.ownLogs {
		g.logs.Close(g.timeout)
	}
}
