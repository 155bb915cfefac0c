package batuta

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/overdue"
)

// Leadership is one period of leading.
type Leadership struct {
	Election string
	Token    Token // its Epoch rises from one leadership to the next, as this member receives them; compare tokens, not epochs
	Since    time.Time
	Fencing  bool // whether the epoch of Token is a fence; see Fence
}

// Fence returns the epoch as a fencing token, for storage that refuses a write under an epoch
// below the highest that it has seen. It returns 0 and false where the epoch is no fence: with
// best effort the two sides of a partition count their epochs separately. It is a fence under a
// quorum and on the engines, where an epoch belongs to a single leadership and rises with each.
func (l Leadership) Fence() (epoch uint64, ok bool) {
	if !l.Fencing {
		return 0, false
	}
	return l.Token.Epoch, true
}

type leadershipKey struct{}

// WithLeadership returns ctx with l, for [LeadershipFrom]. An [Elector] calls it for each context that it gives to work.
func WithLeadership(ctx context.Context, l Leadership) context.Context {
	return context.WithValue(ctx, leadershipKey{}, l)
}

// LeadershipFrom returns the leadership that ctx was made for by Lead, Acquire or Hold of any [Elector], also
// after the leadership has ended. It returns false for any other context.
func LeadershipFrom(ctx context.Context) (l Leadership, ok bool) {
	l, ok = ctx.Value(leadershipKey{}).(Leadership)
	return l, ok
}

// LostError is why the context that [Node.Lead] or [Node.Hold] gives was cancelled.
type LostError struct {
	Token Token
	Cause Cause
}

// Error names the leadership that ended, and the cause.
func (e *LostError) Error() string {
	return fmt.Sprintf("leadership %s lost: %s", e.Token, e.Cause)
}

// ErrClosed is what a node answers after it has ended.
var ErrClosed = errors.New("node is closed")

// Lead runs fn once per leadership of this member, beginning with the present one. fn's context is
// cancelled on loss; its [context.Cause] is then a *[LostError]. Leadership is handed over only after
// fn has returned. If fn returns while this member leads, Lead resigns and returns fn's error. If fn
// returns after a loss, Lead drops its error and waits for the next leadership: to end then, have fn
// cancel ctx. When ctx ends, Lead waits for fn, resigns if this member leads, and returns ctx's error.
// When the node ends, Lead waits for fn and returns [ErrClosed] or the node's own error.
//
// Lead may be called several times at once; leadership is handed over when every fn
// has returned. When the last Lead has returned this member is a candidate no
// more, until Lead or [Node.Campaign] is called: it would lead with no work. See
// [Config.StandAlways].
//
// If fn goes on after its context has ended, the log has a warning after 3 s, and again for as long as fn runs.
//
// On an observer or a witness Lead returns [ErrObserver] at once, because its leadership never comes.
func (n *Node) Lead(ctx context.Context, fn func(ctx context.Context, l Leadership) error) error {
	switch {
	case fn == nil:
		return errNoWork
	case n.cfg.Observer:
		return n.observes(n.cfg.Election)
	}
	if err := n.awaitRun(ctx); err != nil {
		return err
	}
	n.duties.stand()
	defer n.duties.retire()
	return n.leading(ctx, n.history, fn, func(at *happening) *work {
		v := at.Event.View
		if v.Token.Leader.ID == n.id {
			return n.duties.begin(ctx, v)
		}
		return nil
	}, n.duties.finish)
}

// Hold counts a piece of work, such as a request, into the present leadership of this member. Its context comes from ctx and
// has the leadership, see [LeadershipFrom]; it is cancelled on loss as that of [Node.Lead] is. Leadership is
// handed over only after release, which the caller calls when the work has stopped, after a loss too. Releasing again
// does nothing. Unlike a function of Lead, work that ends keeps leadership.
//
// Its error wraps [ErrNotLeading] while this member does not lead; else it is ctx's or [ErrClosed]. Hold never waits for
// a leadership. Call it for each request, not [Node.IsLeader]: a request that outlives the leadership
// would write under the token of the next.
func (n *Node) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	v := n.Leader()
	return n.hold(ctx, v, func() *work { return n.duties.begin(ctx, v) }, n.duties.finish)
}

// hold counts work in under v, by begin, and has release count it out.
func (g *ground) hold(ctx context.Context, v View, begin func() *work, finish func(*work) bool) (context.Context, func(), error) {
	var w *work
	if ctx.Err() == nil && v.Token.Leader.ID == g.id {
		w = begin()
	}
	if w == nil {
		select {
		case <-g.done:
			return nil, nil, g.closed()
		default:
		}
		return nil, nil, cmp.Or(ctx.Err(), fmt.Errorf("member %s, election %q: %w", g.id, v.Election, ErrNotLeading))
	}
	w.held = true
	over := overdue.Watch(w.ctx, g.cfg.Logger, w.Election, w.Token)
	return w.ctx, sync.OnceFunc(func() {
		over()
		finish(w)
	}), nil
}

// Held is a leadership that [Acquire] or [TryAcquire] gave. Its owner calls [Held.Release], after a loss too.
// Its methods may be called from any goroutine.
type Held struct {
	Leadership
	elector Elector
	ctx     context.Context // of the work
	end     context.CancelFunc
	over    chan struct{} // closed when Lead has returned
	err     error         // what it returned
}

// Acquire waits until this candidate leads, and gives its leadership. It is [Elector.Lead] for work that
// is no function: the work goes on until [Held.Release], and ctx is for the wait only.
//
// Its error is ctx's, or what Lead returns, such as [ErrClosed] or [ErrObserver].
func Acquire(ctx context.Context, e Elector) (*Held, error) {
	held, end := context.WithCancel(context.WithoutCancel(ctx))
	if ctx.Err() != nil {
		end()
	}
	h, led := &Held{elector: e, end: end, over: make(chan struct{})}, make(chan struct{})
	go func() {
		defer close(h.over)
		h.err = e.Lead(held, func(work context.Context, l Leadership) error {
			h.Leadership, h.ctx = l, work
			close(led)
			<-held.Done()
			return held.Err()
		})
	}()
	select {
	case <-led:
		return h, nil
	case <-h.over:
	case <-ctx.Done():
		h.Release()
	}
	if ctx.Err() != nil && errors.Is(h.err, context.Canceled) {
		return nil, ctx.Err()
	}
	return nil, h.err
}

// Context ends with the leadership, with a *[LostError] as its [context.Cause], and on [Held.Release]. It has the
// values of the context that Acquire was called with, not its end.
func (h *Held) Context() context.Context { return h.ctx }

// Valid reports whether this leadership goes on right now. It compares clocks, as [Elector.IsLeader] does.
func (h *Held) Valid() bool {
	return h.ctx.Err() == nil && h.elector.Leader().Same(View{Token: h.Token, Since: h.Since})
}

// Release gives leadership away, and returns when the leadership has ended here. Call it when the work has stopped: until
// then no member leads next, and a node that closes waits. Releasing again does nothing.
func (h *Held) Release() {
	h.end()
	<-h.over
}

// ErrObserver is wrapped by what [Node.Lead], [Node.LeadEach] and [Election.Lead] return on a member with
// [Config.Observer], which never leads.
var ErrObserver = errors.New("it is an observer, which never leads")

// observes is why this member cannot lead that election.
func (g *ground) observes(name string) error {
	return fmt.Errorf("member %s cannot lead election %q: %w: leave Config.Observer and Config.Witness out, or do not call Lead", g.id, name, ErrObserver)
}

// errNoWork is returned at once, not when this member first leads.
var errNoWork = fmt.Errorf("%w: Lead without a function: give the work that a leader does", ErrConfig)

// leading runs fn once per leadership of this member in h, until it returns
// under a leadership that lasts, or ctx or h ends. begin counts the work under a view in, and returns
// nil where there is none to do; finish counts it out and reports whether it still led.
func (g *ground) leading(ctx context.Context, h *history, fn func(context.Context, Leadership) error, begin func(*happening) *work, finish func(*work) bool) error {
	at := h.Last() // whatever kind of event it is: its view is present
	for at != nil && ctx.Err() == nil {
		work := begin(at)
		if work == nil { // a different member leads, or it was lost meanwhile
			at = h.Next(ctx, at)
			continue
		}
		if led, err := work.run(g.cfg.Logger, fn, finish); led && ctx.Err() == nil {
			return err
		}
		// None of ours has begun since. Nothing that happened meanwhile is kept for us.
		at = h.Last()
	}
	return g.ended(ctx)
}

// duties are the functions and requests that run under the leaderships of a cluster's own election. They are used in a turn of the node.
type duties struct {
	*ground
	working map[*work]struct{}
	leads   int  // calls of Lead that have not returned
	retired bool // they have all returned, and this member is no candidate
}

// stand makes this member a candidate, because there is work to do.
func (d *duties) stand() {
	d.call(context.Background(), func() {
		d.leads++
		d.retired = false
		d.emit(election.Event{Kind: election.Candidacy, On: true})
	})
}

// retire has it be no candidate any more, if all work is over.
func (d *duties) retire() {
	d.call(context.Background(), func() {
		if d.leads--; d.leads == 0 && !d.cfg.StandAlways && !d.closing {
			d.retired = true
			d.emit(election.Event{Kind: election.Candidacy})
		}
	})
}

// work is a run of a function of the user.
type work struct {
	Leadership            // as it was when the work began
	token      Token      // that of its leadership now; used in a turn of the node
	held       bool       // by Hold: leadership goes on when it ends
	of         *candidate // of a named election; nil: of the cluster's own
	led        bool       // of a named election: it returned while its leadership lasted
	ctx        context.Context
	cancel     context.CancelCauseFunc
}

// workKey is what the context of work has a value for.
type workKey struct{ of *ground }

func (g *ground) newWork(ctx context.Context, v View) *work {
	_, fencing := promises(g.cfg.Algorithm)
	w := &work{Leadership: Leadership{Election: v.Election, Token: v.Token, Since: v.Since, Fencing: fencing}, token: v.Token}
	w.ctx, w.cancel = context.WithCancelCause(WithLeadership(context.WithValue(ctx, workKey{g}, true), w.Leadership))
	return w
}

// run calls fn and reports whether this member still led when it returned.
func (w *work) run(log *slog.Logger, fn func(context.Context, Leadership) error, finish func(*work) bool) (led bool, err error) {
	defer func() { led = finish(w) }() // also when fn panics
	defer overdue.Watch(w.ctx, log, w.Election, w.Token)()
	return false, fn(w.ctx, w.Leadership)
}

// begin counts work in; nil when the leadership of v has ended.
func (d *duties) begin(ctx context.Context, v View) *work {
	return d.workIn(ctx, v, func(w *work) (begun bool) {
		if begun = d.view().Same(v) && !d.closing; !begun {
			return false
		}
		w.token = d.view().Token
		d.working[w] = struct{}{}
		if len(d.working) == 1 {
			d.emit(election.Event{Kind: election.Working, On: true})
		}
		return true
	})
}

// workIn makes work that count takes in, on the loop; nil when it does not.
func (g *ground) workIn(ctx context.Context, v View, count func(*work) (begun bool)) *work {
	w := g.newWork(ctx, v)
	begun := false
	g.call(context.WithoutCancel(ctx), func() { begun = count(w) })
	if !begun {
		w.cancel(nil)
		return nil
	}
	return w
}

// finish counts work out. If it was still leading, it gives leadership away.
func (d *duties) finish(w *work) (led bool) {
	d.call(context.Background(), func() {
		led = d.view().Token == w.token && !w.held
		delete(d.working, w)
		if len(d.working) == 0 {
			d.emit(election.Event{Kind: election.Working, On: false})
		}
		if led {
			d.emit(election.Event{Kind: election.Resigned})
		}
	})
	w.cancel(nil)
	return led
}

// cancelWork cancels all work of a leadership that has ended.
func (d *duties) cancelWork(token Token, cause Cause) {
	for w := range d.working {
		if w.token == token {
			w.cancel(&LostError{token, cause})
		}
	}
}

// renew has the work of a leadership go on under its renewed token.
func (d *duties) renew(was, is Token) {
	for w := range d.working {
		if w.token == was {
			w.token = is
		}
	}
}

// leasing is an Algorithm that gives such leases, of that length for a silence of t.
type leasing interface {
	Lease(t time.Duration) time.Duration
}

// Lease is for how long the work of a leadership may run.
type Lease struct {
	Left  time.Duration // from now on, if nothing is renewed; 0 or less without a leadership
	Whole time.Duration // when it has just been renewed; 0: no other member waits for its end
}

// Lease returns the lease of this member's leadership. No other member leads before it has ended, and
// it is renewed for as long as the work takes to stop. With a best-effort Algorithm there is none, and both
// times are 0. Its error is ctx's, or [ErrClosed].
func (n *Node) Lease(ctx context.Context) (l Lease, err error) {
	if a, ok := n.cfg.Algorithm.(leasing); ok {
		l.Whole = a.Lease(n.timeout)
	}
	l.Left, err = ask(ctx, &n.calls, func() (left time.Duration) {
		// past their end, too, while the work of its leaderships stops
		if c, ok := n.machine.(machine.Leaser); ok && !c.Guard().IsZero() {
			left = c.Guard().Sub(n.now())
		}
		return left
	})
	return l, err
}

// Elector is an election as a candidate takes part in it: a [Node], a named [Election], and any type that keeps
// the same promises. Module github.com/batuta-dev/batuta/engines has it on engines
// that are run already, such as etcd. Package electiontest/electortest tests a type for them:
//
//   - Views come in order: lost for a leadership before leader for the next, tokens that never decrease.
//   - The work of a leadership has returned before the next leadership begins, wherever, unless its
//     process or its connections have failed.
//   - IsLeader compares clocks; it is false before the loss of the leadership is published.
//   - After it, or its node, was closed nothing runs, and every method returns at once, with [ErrClosed] where it has an error.
type Elector interface {
	// Lead runs fn once per leadership of this candidate, with a context that is cancelled when it
	// ends; see [Node.Lead].
	Lead(ctx context.Context, fn func(ctx context.Context, l Leadership) error) error
	// Hold counts work into the present leadership of this candidate, or returns an error that wraps
	// [ErrNotLeading]; see [Node.Hold].
	Hold(ctx context.Context) (held context.Context, release func(), err error)
	// Watch yields the views of this candidate in order, the present view first; see [Node.Watch].
	Watch(ctx context.Context) iter.Seq2[View, error]
	// Leader is the present view. It names this candidate only while IsLeader does.
	Leader() View
	// IsLeader reports whether this candidate leads right now.
	IsLeader() bool
	// Resign steps down; no effect when not leading. The work is cancelled, and waited for, before the next member leads.
	Resign(ctx context.Context) error
}

var (
	_ Elector = (*Node)(nil)
	_ Elector = (*Election)(nil)
)

// oaths has a guard attest the end of this member's leaderships, where it has a guard: see
// [quorum.WithGuard].
type oaths struct {
	guard attest.Guard // nil: there is none
	sworn attest.Oath  // of the leadership that lasts
}

func newOaths(a Algorithm) (o oaths) {
	if g, ok := a.(interface{ Guard() attest.Guard }); ok {
		o.guard = g.Guard()
	}
	return o
}

// begin hands the guard the secret of a leadership that begins, if it is this member's, and gives
// the proof that the guard has it.
func (o *oaths) begin(t Token, self ID, members []machine.MemberView) []byte {
	if o.guard == nil || t.Leader.ID != self {
		return nil
	}
	o.sworn = attest.Oath{Token: t, Secret: make([]byte, attest.Size)}
	rand.Read(o.sworn.Secret) // it never fails
	o.reaches(self, members)
	commitment := attest.Of(o.sworn.Secret)
	return commitment[:]
}

// reaches has the guard attest to these members.
func (o *oaths) reaches(self ID, members []machine.MemberView) {
	if len(o.sworn.Secret) == 0 {
		return
	}
	o.sworn.Members = nil
	for _, m := range members {
		if m.ID != self && m.Address != "" {
			o.sworn.Members = append(o.sworn.Members, m.Address)
		}
	}
	o.guard.Swear(o.sworn)
}

// end has the guard forget a leadership that has ended.
func (o *oaths) end(t Token) {
	if o.guard != nil && o.sworn.Token == t {
		o.sworn = attest.Oath{}
		o.guard.Swear(o.sworn)
	}
}

// bars is why no guard attests the end of this member's process; empty: a guard does, or with that
// takeover none is asked for.
func (o *oaths) bars(takeover string) string {
	switch {
	case takeover != "attested":
		return ""
	case o.guard == nil:
		return "it has no guard"
	}
	return o.guard.Bars()
}
