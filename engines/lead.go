package engines

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/overdue"
)

// Lead runs fn once per leadership of this candidate, beginning with the present leadership if it
// leads already, with a context that is cancelled on loss; its [context.Cause] is then a
// *[batuta.LostError]. Leadership is handed over, and the next leadership begun, only after fn has
// returned. When fn returns while still leading, Lead resigns and returns fn's error. When
// ctx ends, Lead waits for fn, resigns if still leading, and returns ctx's error. When the
// election is closed, Lead waits for fn and returns [batuta.ErrClosed].
//
// Lead may be called several times at once; leadership is handed over when every fn has
// returned. While it runs this process is a candidate; see [Config.StandAlways].
func (e *Election) Lead(ctx context.Context, fn func(ctx context.Context, l batuta.Leadership) error) error {
	if fn == nil {
		return fmt.Errorf("%w: Lead without a function: give the work that a leader does", batuta.ErrConfig)
	}
	if err := e.call(ctx, func() { e.leads++ }); err != nil {
		return err
	}
	defer e.call(context.Background(), func() {
		if e.leads--; e.leads == 0 && !e.standing && e.leading() {
			e.resign() // nothing is left that it would lead for
			e.resigned = false
		}
	})
	at := e.history.Last()
	for at != nil && ctx.Err() == nil {
		var w *work
		if v := at.Event.View; v.Token.Leader.ID == e.ID() {
			w = e.begin(ctx, v.Token)
		}
		if w == nil { // this candidate does not lead, or no longer
			at = e.history.Next(ctx, at)
			continue
		}
		l := batuta.Leadership{Election: at.Event.View.Election, Token: w.token, Since: at.Event.View.Since, Fencing: true}
		if led, err := e.run(w, l, fn); led && ctx.Err() == nil {
			return err
		}
		at = e.history.Last() // none of ours has begun since
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return batuta.ErrClosed
}

// Hold counts a piece of work, such as a request, into the present leadership of this candidate; see
// [batuta.Node.Hold]. Its error wraps [batuta.ErrNotLeading] while this candidate does not lead; else it
// is ctx's or [batuta.ErrClosed].
func (e *Election) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	v := e.Leader()
	var w *work
	if ctx.Err() == nil && v.Token.Leader.ID == e.ID() {
		w = e.begin(ctx, v.Token)
	}
	if w == nil {
		select {
		case <-e.done:
			return nil, nil, batuta.ErrClosed
		default:
		}
		return nil, nil, cmp.Or(ctx.Err(), fmt.Errorf("candidate %s, election %q: %w", e.ID(), v.Election, batuta.ErrNotLeading))
	}
	w.held = true
	over := overdue.Watch(w.ctx, e.cfg.Logger, v.Election, v.Token)
	l := batuta.Leadership{Election: v.Election, Token: v.Token, Since: v.Since, Fencing: true}
	return batuta.WithLeadership(w.ctx, l), sync.OnceFunc(func() {
		over()
		e.finish(w)
	}), nil
}

// run calls fn and reports whether this candidate still led when fn returned.
func (e *Election) run(w *work, l batuta.Leadership, fn func(context.Context, batuta.Leadership) error) (led bool, err error) {
	defer func() { led = e.finish(w) }() // also when fn panics
	defer overdue.Watch(w.ctx, e.cfg.Logger, l.Election, l.Token)()
	return false, fn(batuta.WithLeadership(w.ctx, l), l)
}

// work is a run of a function of the user's.
type work struct {
	token  batuta.Token
	held   bool // by Hold: leadership goes on when it ends
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// workKey is what the context of work has a value for.
type workKey struct{ of *Election }

// begin counts work in; nil when token has ended.
func (e *Election) begin(ctx context.Context, token batuta.Token) *work {
	w := &work{token: token}
	w.ctx, w.cancel = context.WithCancelCause(context.WithValue(ctx, workKey{e}, true))
	begun := false
	e.call(context.WithoutCancel(ctx), func() {
		if begun = e.token == token && e.late() < 0; begun {
			e.working[w] = struct{}{}
		}
	})
	if !begun {
		w.cancel(nil)
		return nil
	}
	return w
}

// finish counts work out. If this candidate still led, it hands leadership over.
func (e *Election) finish(w *work) (led bool) {
	e.call(context.Background(), func() {
		led = e.token == w.token && !w.held
		delete(e.working, w)
		if led {
			e.resign()
		}
	})
	w.cancel(nil)
	return led
}

// cancelWork cancels all work of a leadership that has ended.
func (e *Election) cancelWork(token batuta.Token, cause batuta.Cause) {
	for w := range e.working {
		if w.token == token {
			w.cancel(&batuta.LostError{Token: token, Cause: cause})
		}
	}
}
