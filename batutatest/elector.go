package batutatest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/eventlog"
)

// Elector is a [batuta.Elector] in memory, for which the test begins and ends leaderships. It needs
// no cluster, clock or socket, and serves for unit tests of a service. Its candidate has the id
// "1". The test calls Elect, Follow and Lose from its own goroutine, not from within the work.
type Elector struct {
	// BestEffort makes [batuta.Leadership.Fence] return false, as with a best-effort algorithm. Set
	// it before Elect.
	BestEffort bool

	t       testing.TB
	history *eventlog.List[batuta.View]

	mu      sync.Mutex
	ended   bool
	working map[*piece]struct{}
	rest    chan struct{} // closed when a piece ends, then replaced
}

// piece is work under a leadership.
type piece struct {
	batuta.Leadership
	keeps  bool // it is of Hold: its end keeps leadership
	ctx    context.Context
	cancel context.CancelCauseFunc
}

const (
	self = batuta.ID("1")
	name = batuta.DefaultElection
)

// NewElector returns an Elector without a leader. It ends with the test, which fails if work has not returned then.
func NewElector(t testing.TB) *Elector {
	e := &Elector{t: t, history: eventlog.New(batuta.View{Election: name, Since: time.Now()}, batuta.MaxBacklog),
		working: map[*piece]struct{}{}, rest: make(chan struct{})}
	t.Cleanup(func() {
		e.Lose(batuta.CauseStopped)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ended = true
		e.history.End()
	})
	return e
}

// Elect begins a leadership of this candidate, under the next epoch, and returns its token. A
// present leadership is lost first, by [batuta.CauseSuperseded].
func (e *Elector) Elect() batuta.Token {
	e.t.Helper()
	return e.begin(batuta.View{Token: batuta.Token{Leader: batuta.Rank{ID: self}}})
}

// Follow begins a leadership of that member, which publishes meta; otherwise it is as Elect.
func (e *Elector) Follow(leader batuta.ID, meta map[string]string) batuta.Token {
	e.t.Helper()
	return e.begin(batuta.View{Token: batuta.Token{Leader: batuta.Rank{ID: leader}}, Meta: meta})
}

func (e *Elector) begin(v batuta.View) batuta.Token {
	e.t.Helper()
	e.Lose(batuta.CauseSuperseded)
	e.mu.Lock()
	defer e.mu.Unlock()
	v.Election, v.Since, v.Token.Epoch = name, time.Now(), e.view().Lost.Epoch+1
	e.history.Add(v)
	return v.Token
}

// Lose ends the present leadership, if there is any, by that cause. It cancels the work of this candidate, and returns
// when the work has returned. The test fails if that takes longer than [Patience].
func (e *Elector) Lose(cause batuta.Cause) {
	e.t.Helper()
	e.lose(cause)
	for late := time.After(Patience); ; {
		e.mu.Lock()
		left, rest := len(e.working), e.rest
		e.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-rest:
		case <-late:
			e.t.Fatalf("%d functions of Lead, or requests of Hold, have not ended %v after their leadership", left, Patience)
		}
	}
}

func (e *Elector) lose(cause batuta.Cause) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.view()
	if !v.Defined() {
		return
	}
	for p := range e.working {
		p.cancel(&batuta.LostError{Token: p.Token, Cause: cause})
	}
	now := time.Now()
	e.history.Add(batuta.View{Election: name, Since: now, Lost: v.Token, Cause: cause, LastSeen: now})
}

func (e *Elector) view() batuta.View { return e.history.Last().Event }

// start begins work in the present leadership.
func (e *Elector) start(ctx context.Context, keeps bool) (*piece, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	v := e.view()
	switch {
	case e.ended:
		return nil, batuta.ErrClosed
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case v.Token.Leader.ID != self:
		return nil, fmt.Errorf("candidate %s, election %q: %w", self, name, batuta.ErrNotLeading)
	}
	p := &piece{Leadership: batuta.Leadership{Election: name, Token: v.Token, Since: v.Since, Fencing: !e.BestEffort}, keeps: keeps}
	p.ctx, p.cancel = context.WithCancelCause(batuta.WithLeadership(ctx, p.Leadership))
	e.working[p] = struct{}{}
	return p, nil
}

// stop ends a piece of work, and reports whether that ends leadership.
func (e *Elector) stop(p *piece) (led bool) {
	e.mu.Lock()
	delete(e.working, p)
	close(e.rest)
	e.rest = make(chan struct{})
	led = e.view().Token == p.Token && !p.keeps
	e.mu.Unlock()
	if led {
		e.lose(batuta.CauseResigned)
	}
	p.cancel(nil)
	return led
}

// Lead implements [batuta.Elector].
func (e *Elector) Lead(ctx context.Context, fn func(ctx context.Context, l batuta.Leadership) error) error {
	if fn == nil {
		return fmt.Errorf("%w: Lead without a function: give the work that a leader does", batuta.ErrConfig)
	}
	for at := e.history.Last(); at != nil; {
		p, err := e.start(ctx, false)
		if err != nil {
			at = e.history.Next(ctx, at)
			continue
		}
		if led, err := e.work(p, fn); led && ctx.Err() == nil {
			return err
		}
		at = e.history.Last()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return batuta.ErrClosed
}

func (e *Elector) work(p *piece, fn func(context.Context, batuta.Leadership) error) (led bool, err error) {
	defer func() { led = e.stop(p) }() // also when fn panics
	return false, fn(p.ctx, p.Leadership)
}

// Hold implements [batuta.Elector].
func (e *Elector) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	p, err := e.start(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	return p.ctx, sync.OnceFunc(func() { e.stop(p) }), nil
}

// Watch implements [batuta.Elector].
func (e *Elector) Watch(ctx context.Context) iter.Seq2[batuta.View, error] {
	h := e.history
	return eventlog.Walk(ctx, h, h.Place(), batuta.ErrBehind,
		func(v batuta.View) []batuta.View { return []batuta.View{v} }, func(v batuta.View) (batuta.View, bool) { return v, true })
}

// Leader implements [batuta.Elector].
func (e *Elector) Leader() batuta.View { return e.view() }

// IsLeader implements [batuta.Elector].
func (e *Elector) IsLeader() bool { return e.view().Token.Leader.ID == self }

// Resign implements [batuta.Elector]: the leadership is lost by [batuta.CauseResigned].
func (e *Elector) Resign(ctx context.Context) error {
	e.mu.Lock()
	ended := e.ended
	e.mu.Unlock()
	switch {
	case ended:
		return batuta.ErrClosed
	case e.IsLeader():
		e.lose(batuta.CauseResigned)
	}
	return ctx.Err()
}
