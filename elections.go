package batuta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/named"
)

// Election is a named election of a cluster, as a member takes part in it:
// see [Node.Election]. Its methods may be called from any goroutine.
type Election struct {
	node *Node
	name string
	how  named.Candidacy
	err  error // what is wrong with it
}

// ElectionOption changes how a member is a candidate of an election: [Weight], [Prefer] or [Seats]. The zero value changes nothing.
type ElectionOption struct{ change func(*named.Candidacy) }

// Weight is the relative cost of an election for its leader. Elections are spread so
// that the sums of two members differ by the heaviest election at most; 1 to 1,048,576, default 1, also
// for 0. If candidates differ, the greatest weight counts.
func Weight(n int) ElectionOption { return ElectionOption{func(c *named.Candidacy) { c.Weight = n }} }

// Prefer gives this member the election whenever it may lead, by a
// hand-over from the present leader, whatever its share.
func Prefer() ElectionOption { return ElectionOption{func(c *named.Candidacy) { c.Prefer = true }} }

// Seats is how many members lead an election at once, each under a token of its own; 1 to
// 64, default 1, also for 0. If candidates differ, the greatest number counts.
func Seats(n int) ElectionOption { return ElectionOption{func(c *named.Candidacy) { c.Seats = n }} }

// MaxElections is how many elections a cluster holds, and MaxElectionName how long the
// name of an election may be, in bytes.
const (
	MaxElections    = named.MaxElections
	MaxElectionName = named.MaxName
)

// ErrTooManyElections is returned when a cluster holds [MaxElections].
var ErrTooManyElections = named.ErrTooMany

// Election gives the election of that name: 1 to [MaxElectionName] bytes of UTF-8 without
// control characters, taken in the form NFC. All elections of a cluster share its members,
// its connections and its detector; the leader of the cluster itself coordinates them, and
// distributes them over the candidates. A member is a candidate while it is in [Election.Lead].
// The name of the cluster's own election (Config.Election) returns that election: its methods are
// those of the Node, except Transfer and StepDown, which any member may call. The options count for nothing.
//
// What is wrong with the name or an option is what the methods answer.
func (n *Node) Election(name string, options ...ElectionOption) *Election {
	e := &Election{node: n, name: name}
	for _, o := range options {
		if o.change != nil {
			o.change(&e.how)
		}
	}
	canonical, err := named.Name(name)
	if err == nil {
		e.name = canonical
		e.how, err = e.how.Check()
	}
	switch {
	case err != nil:
		e.err = config("%w", err)
	case e.own():
	case n.named == nil:
		e.err = config("election %q: only batuta's own wire carries named elections", name)
	}
	return e
}

// own reports whether it is the cluster's own.
func (e *Election) own() bool { return e.name == e.node.cfg.Election }

// Name is its name.
func (e *Election) Name() string { return e.name }

// Lead is [Node.Lead] for this election, and makes this member a candidate of it until Lead
// returns: a member without such a call is no candidate. fn runs once per leadership of this
// member, with a context that is cancelled on loss; its [context.Cause] is then a
// *[LostError]. The next member leads only after fn has returned.
//
// A leadership lasts while the coordinator's beats arrive, and at most 2·T and a heartbeat
// after the last: a coordinator that fails and is replaced in that time interrupts no leadership.
//
// Lead may be called several times at once for a name; the options of the first count. Its
// error is fn's, ctx's, [ErrClosed] or the node's own, [ErrTooManyElections], [ErrObserver], or what is
// wrong with the name.
func (e *Election) Lead(ctx context.Context, fn func(ctx context.Context, l Leadership) error) error {
	switch {
	case e.err != nil:
		return e.err
	case e.own():
		return e.node.Lead(ctx, fn)
	case fn == nil:
		return errNoWork
	}
	n, s := e.node, &call{}
	if err := n.candidacies.standFor(ctx, s, e); err != nil {
		return err
	}
	defer n.candidacies.withdraw(s, e)
	return n.leading(ctx, s.history, fn, func(at *happening) *work {
		if v := at.Event.View; v.Defined() {
			return n.candidacies.beginNamed(ctx, v)
		}
		return nil
	}, n.candidacies.finishNamed)
}

// Hold is [Node.Hold] for this election. It gives a leadership that this member has while Lead, LeadEach
// or Acquire runs for the election here.
func (e *Election) Hold(ctx context.Context) (held context.Context, release func(), err error) {
	switch {
	case e.err != nil:
		return nil, nil, e.err
	case e.own():
		return e.node.Hold(ctx)
	}
	n, v := e.node, e.Leader()
	return n.hold(ctx, v, func() *work { return n.candidacies.beginNamed(ctx, v) }, n.candidacies.finishNamed)
}

// LeadEach is [Election.Lead] for many elections at once: this member is a candidate of each, and fn runs
// once per leadership of any of them, on a goroutine of its own; elections without a leadership here have
// no goroutine. When fn returns while this member still leads, this member is no longer a candidate of that
// election; if fn returns an error, of none of the elections. LeadEach returns when this member is a
// candidate of none of them and every fn has returned, with that error, nil, ctx's, or an error of Lead. The
// elections are of this node, each is listed once, and the cluster's own is not among them.
func (n *Node) LeadEach(ctx context.Context, elections []*Election, fn func(ctx context.Context, l Leadership) error) error {
	seen := make(map[string]bool, len(elections))
	for _, e := range elections {
		switch {
		case e.err != nil:
			return e.err
		case e.node != n, e.own(), seen[e.name]:
			return config("election %q: LeadEach takes elections of its own node, each once, and not the cluster's own", e.name)
		}
		seen[e.name] = true
	}
	switch {
	case fn == nil:
		return errNoWork
	case len(elections) == 0:
		return nil
	}
	within, stop := context.WithCancel(ctx)
	defer stop()
	s := &call{ctx: within, fn: fn, ended: make(chan error, 1)}
	if err := n.candidacies.standFor(ctx, s, elections...); err != nil {
		return err
	}
	var err error
	select {
	case err = <-s.ended:
	case <-ctx.Done():
		err = ctx.Err()
	case <-n.done:
		err = n.closed()
	}
	stop()
	n.candidacies.withdraw(s, elections...)
	s.running.Wait()
	return err
}

// Leader is this member's present view; of an election with several seats the view that
// this member leads, or else the first. It names this member only while IsLeader does.
func (e *Election) Leader() View {
	if e.own() {
		return e.node.Leader()
	}
	if e.err != nil {
		return View{Election: e.name}
	}
	return e.node.candidacies.leader(e.name)
}

// Leaders are the views of all seats of the election that are led, in order.
func (e *Election) Leaders() (views []View) {
	if e.own() {
		if v := e.node.Leader(); v.Defined() {
			views = append(views, v)
		}
		return views
	}
	if e.err != nil {
		return nil
	}
	for _, v := range e.node.candidacies.elections.list(e.name) {
		if v = e.node.candidacies.unlessLate(v); v.Defined() {
			views = append(views, v)
		}
	}
	return views
}

// IsLeader reports whether this member leads the election right now. It compares clocks,
// as [Node.IsLeader] does.
func (e *Election) IsLeader() bool {
	if e.own() {
		return e.node.IsLeader()
	}
	return e.Leader().Token.Leader.ID == e.node.id
}

// Watch yields this member's views of the election in order, none skipped, the present
// view first, as [Node.Watch] does; any member may watch. Of an election with several seats each
// view is of a single seat: see [View].
func (e *Election) Watch(ctx context.Context) iter.Seq2[View, error] {
	if e.own() {
		return e.node.Watch(ctx)
	}
	if e.err != nil {
		return func(yield func(View, error) bool) { yield(View{}, e.err) }
	}
	return e.node.candidacies.elections.watched(e.name).views(ctx)
}

// Resign gives the election to the next candidate, and without a second candidate to this
// member again, under a new token. No effect when not leading. It returns when the
// leadership has ended here, with ctx's error, or with [ErrClosed].
func (e *Election) Resign(ctx context.Context) error {
	switch {
	case e.err != nil:
		return e.err
	case e.own():
		return e.node.Resign(ctx)
	}
	n := e.node
	return n.call(ctx, func() { n.perform(n.named.Resign(n.now(), e.name)) })
}

// Transfer has the election handed over to that member when the work for it at its leader has
// stopped; any member may ask, of the cluster's own election too. It returns when that member leads, as
// this member has received it. A refusal is an error with the reason; then nothing changes.
// Of a named election the error wraps [ErrRefusedElection], also if the target cannot lead any more when that work has stopped, or
// if a new coordinator, which did not know of the request yet, has chosen another leader.
// A coordinator that takes over meanwhile is asked too. A new coordinator answers when it has received
// which members are candidates, or when the time of a leadership has passed.
// Until the next change of leader the election stays there, whatever the shares.
func (e *Election) Transfer(ctx context.Context, id ID) error {
	if e.err != nil {
		return e.err
	}
	id, err := parseID(id)
	switch {
	case err != nil:
		return err
	case e.own():
		return e.handOver(ctx, id)
	}
	return e.transferred(ctx, id)
}

// transferred has the coordinator hand a named election over, and waits until the target leads, or will not.
func (e *Election) transferred(ctx context.Context, id ID) error {
	r := named.Request{Do: named.DoTransfer, Name: e.name, Member: id}
	within, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	views, coordinators := e.Watch(within), e.node.Watch(within)
	agreed, err := e.node.candidacies.request(ctx, r)
	if err != nil {
		return err
	}
	go func() {
		if err := e.askEach(within, coordinators, r); err != nil {
			stop(err)
		}
	}()
	before := true // what this member saw before the coordinator had agreed decides nothing
	for v, err := range views {
		leaders := e.Leaders()
		switch {
		case err != nil:
			return err
		case v.Token.Leader.ID == id, slices.ContainsFunc(leaders, func(v View) bool { return v.Token.Leader.ID == id }):
			return nil
		case before:
			before = v.Token != agreed.Token || !v.Since.Equal(agreed.Since)
		case len(leaders) > 0 && len(e.node.candidacies.elections.list(e.name)) == 1:
			return classed(fmt.Sprintf("member %s leads election %q instead of %s, which could not lead when the work had stopped, or the coordinator has changed: see its status, and ask again", leaders[0].Token.Leader.ID, e.name, id), ErrRefusedElection)
		default:
			if err := e.askAgain(ctx, r); err != nil {
				return err
			}
		}
	}
	if err := cmp.Or(ctx.Err(), context.Cause(within)); err != nil {
		return err
	}
	return e.node.ended(ctx)
}

// askEach repeats a request to each coordinator that follows the first of views, until one refuses it.
func (e *Election) askEach(ctx context.Context, views iter.Seq2[View, error], r named.Request) error {
	first := true
	for v := range views {
		if !first && v.Defined() {
			if err := e.askAgain(ctx, r); err != nil {
				return err
			}
		}
		first = false
	}
	return nil
}

// askAgain repeats a request for a transfer. The coordinator refuses if the target cannot lead any more, and does
// nothing if the seat is still for it.
func (e *Election) askAgain(ctx context.Context, r named.Request) error {
	_, err := e.node.candidacies.request(ctx, r)
	if errors.Is(err, ErrNotLeading) || errors.Is(err, errUnanswered) {
		return nil
	}
	return err
}

// handOver is Transfer of the cluster's own election.
func (e *Election) handOver(ctx context.Context, id ID) error {
	n := e.node
	from := n.Leader().Token
	switch err := n.Transfer(ctx, id); {
	case !errors.Is(err, ErrNotLeading) || n.named == nil || !from.Defined() || from.Leader.ID == n.id:
		return err
	case from.Leader.ID == id:
		return nil
	}
	if _, err := e.askLeader(ctx, named.Request{Do: named.DoHandOver, Member: id}); err != nil {
		return err
	}
	return n.followed(ctx, from, id)
}

// StepDown has leader, or with none whichever member leads, resign from the cluster's own election, as
// [Node.Resign] does there. Any member may ask; of a named election [Election.Transfer] does this. It
// returns when that leadership has ended as this member sees it.
//
// It is refused with [ErrNotLeading] if leader does not lead it. Its error is
// ctx's if the leader's answer has not arrived in time, or was lost: then the leader may have resigned, or may
// still do so until its work has stopped.
func (e *Election) StepDown(ctx context.Context, leader ID) error {
	switch {
	case e.err != nil:
		return e.err
	case !e.own():
		return config("election %q: StepDown is for the cluster's own; Transfer hands over a named one", e.name)
	}
	if leader != election.None {
		var err error
		if leader, err = parseID(leader); err != nil {
			return err
		}
	}
	n := e.node
	view, err := ask(ctx, &n.calls, func() View {
		view := n.view()
		if view.Token.Leader.ID == n.id && cmp.Or(leader, n.id) == n.id {
			n.emit(election.Event{Kind: election.Resigned})
		}
		return view
	})
	from := view.Token
	switch {
	case err != nil:
		return err
	case n.named == nil && from.Leader.ID != n.id, !from.Defined(), cmp.Or(leader, from.Leader.ID) != from.Leader.ID:
		return fmt.Errorf("member %s: %w", cmp.Or(leader, n.id), ErrNotLeading)
	case from.Leader.ID == n.id:
		return nil
	}
	if _, err := e.askLeader(ctx, named.Request{Do: named.DoResign, Member: from.Leader.ID}); err != nil {
		return err
	}
	for v, err := range n.Watch(ctx) {
		if err != nil || !v.Same(view) {
			return err
		}
	}
	return n.ended(ctx)
}

// askLeader sends a request to the leader. Without an answer, because its leadership has ended, it may have been done.
func (e *Election) askLeader(ctx context.Context, r named.Request) (answered bool, err error) {
	if _, err = e.node.candidacies.request(ctx, r); errors.Is(err, errUnanswered) {
		return false, nil
	}
	return true, err
}

// Elections yields the views of all elections but the cluster's own: first the present
// ones, by name and seat; then each change, in order, none skipped, until ctx or the
// node ends. Where no member leads now the view of the leadership that ended comes before
// the present view: each loss follows its leadership. Its place is taken when it is called.
// Its errors are those of [Node.Watch].
func (n *Node) Elections(ctx context.Context) iter.Seq2[View, error] {
	taken, follow := n.candidacies.elections.all(ctx)
	var again atomic.Bool
	return func(yield func(View, error) bool) {
		first, all := taken, follow
		if again.Swap(true) {
			first, all = n.candidacies.elections.all(ctx)
		}
		for _, v := range first {
			if !yield(v, nil) {
				return
			}
		}
		all(yield)
	}
}

// ListElections are the present views of all elections but the cluster's own, by name and
// seat.
func (n *Node) ListElections() []View {
	views := n.candidacies.elections.list()
	for i, v := range views {
		views[i] = n.candidacies.unlessLate(v)
	}
	return views
}

// Drain moves all elections but the cluster's own away from a member, in turn, each when
// its work has stopped, and keeps them away until [Node.Undrain]. It returns when the
// coordinator has agreed. It is refused when that member is the only candidate of an
// election, unless with force: then such elections have no leader. Any member may ask. It lasts
// across coordinators, and until the cluster as a whole has stopped.
func (n *Node) Drain(ctx context.Context, id ID, force bool) error {
	return requestOf(ctx, n, named.DoDrain, id, force)
}

// Undrain ends what [Node.Drain] has begun.
func (n *Node) Undrain(ctx context.Context, id ID) error {
	return requestOf(ctx, n, named.DoUndrain, id, false)
}

// Drained are the members that are drained, as far as this member has received.
func (n *Node) Drained(ctx context.Context) (ids []ID, err error) {
	return ask(ctx, &n.calls, func() (ids []ID) {
		if n.named != nil {
			ids = n.named.Drained()
		}
		return ids
	})
}

func requestOf(ctx context.Context, n *Node, do string, id ID, force bool) error {
	id, err := parseID(id)
	if err != nil {
		return err
	}
	_, err = n.candidacies.request(ctx, named.Request{Do: do, Member: id, Force: force})
	return err
}

// ErrRefusedElection is wrapped by what [Node.Drain], [Node.Undrain] and [Election.Transfer] answer
// where the coordinator refuses, or there is none; the rest of the error is the reason.
var ErrRefusedElection = errors.New("the coordinator of the elections refuses")

// asking is a request that waits for the coordinator's answer.
type asking struct {
	name   string // of the election that it is about
	answer chan answered
}

// answered is an answer, and the last view of that election when it arrived.
type answered struct {
	named.Reply
	view View
}

// request has the coordinator asked, and gives its answer, and what this member saw of the election when that
// arrived.
func (m *candidacies) request(ctx context.Context, r named.Request) (View, error) {
	if until, ok := ctx.Deadline(); ok {
		r.Within = time.Until(until)
	}
	answer := make(chan answered, 1)
	var number uint64
	err := m.call(ctx, func() {
		if m.named == nil {
			answer <- answered{Reply: named.Reply{Error: "only batuta's own wire carries named elections"}}
			return
		}
		var actions []election.Action
		number, actions = m.named.Request(m.now(), r)
		m.asked[number] = asking{r.Name, answer}
		m.perform(actions)
	})
	if err != nil {
		return View{}, err
	}
	select {
	case a := <-answer:
		return a.view, refusedBy(a.Reply)
	case <-m.done:
		return View{}, m.closed()
	case <-ctx.Done():
		m.call(context.WithoutCancel(ctx), func() {
			delete(m.asked, number)
			m.named.Forget(number)
		})
		return View{}, ctx.Err()
	}
}

var errUnanswered = errors.New("its answer was lost")

// refusedBy is what a coordinator's reply amounts to.
func refusedBy(r named.Reply) error {
	classes := map[named.Refusal]error{named.RefusedNotMember: ErrNotMember, named.RefusedNotLeading: ErrNotLeading, named.RefusedUnfit: ErrUnfit, named.Unanswered: errUnanswered}
	switch class := classes[r.Why]; {
	case r.Error == "":
		return nil
	case class != nil:
		return classed(r.Error, class, ErrRefusedElection)
	}
	return fmt.Errorf("%w: %s", ErrRefusedElection, r.Error)
}

// classError has a text of its own, and classes.
type classError struct {
	words   string
	classes []error
}

func classed(words string, classes ...error) error { return &classError{words, classes} }

func (c *classError) Error() string   { return c.words }
func (c *classError) Unwrap() []error { return c.classes }

// TryTimeout is how long [TryAcquire] waits at most while no member leads.
const TryTimeout = 3 * time.Second

// TryAcquire is [Acquire] that does not wait for the end of a leadership. Its error wraps [ErrNotLeading] when a different
// leads, and when this candidate does not lead within [TryTimeout].
func TryAcquire(ctx context.Context, e Elector) (*Held, error) {
	within, giveUp := context.WithCancelCause(ctx)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer giveUp(nil)
	defer time.AfterFunc(TryTimeout, func() {
		giveUp(classed("this candidate was not elected within "+TryTimeout.String()+": try again later, or wait with Acquire", ErrNotLeading))
	}).Stop()
	watcher.Go(func() {
		for range e.Watch(within) {
			if by, taken := taken(e); taken {
				giveUp(classed(fmt.Sprintf("member %s leads election %q: try again later, or wait with Acquire", by.Token.Leader.ID, by.Election), ErrNotLeading))
			}
		}
	})
	h, err := Acquire(within, e)
	if cause := context.Cause(within); err == within.Err() && errors.Is(cause, ErrNotLeading) {
		return nil, cause
	}
	return h, err
}

// taken returns the view of a leadership elsewhere, if no seat is left for this candidate.
func taken(e Elector) (v View, taken bool) {
	v = e.Leader()
	if named, ok := e.(*Election); ok && !named.own() && len(named.Leaders()) < named.how.Seats {
		return v, false
	}
	return v, v.Defined() && !e.IsLeader()
}

// Lease is [Node.Lease] of this election; the coordinator renews it. Under a best-effort Algorithm
// the next member may lead before it has ended, and Whole is 0.
func (e *Election) Lease(ctx context.Context) (Lease, error) {
	switch {
	case e.err != nil:
		return Lease{}, e.err
	case e.own():
		return e.node.Lease(ctx)
	}
	n := e.node
	return ask(ctx, &n.calls, func() (l Lease) {
		l.Whole = n.named.Lease()
		if until := n.named.Vouched(e.name); !until.IsZero() {
			l.Left = until.Sub(n.now())
		}
		return l
	})
}

// MaxPause bounds the length of [Node.Pause].
const MaxPause = election.MaxPause

// Pause keeps the leader of the cluster's own election for that long, or ends a pause with 0: meanwhile no member takes
// over, whether the leader lives or not. Any member may ask, and all members receive it. [Node.Resign],
// [Node.Transfer] and [Node.Leave] of the leader still hand leadership over, and the next leader keeps
// it for the rest of the pause. A leader that is unhealthy keeps it, too.
//
// It returns when this member has received it. If leadership moves meanwhile, the next leader is asked, too. With 0 the leader is
// asked even if this member has received no pause: it may be on its way.
// It is refused with an error that wraps [ErrNotLeading] if there is no leader; then only a pause that this member has received can be ended. Further errors are ctx's, and those of [Node.Drain].
// A pause is not on disk: it ends when every process that knows it has ended.
func (n *Node) Pause(ctx context.Context, length time.Duration) error {
	if length < 0 || length > MaxPause {
		return config("pause of %v: give at most %v, or 0 to end a pause", length, MaxPause)
	}
	var asked Token
	var before uint64 // the version of the pause when the call began
	agreed := false
	for first := true; ; first = false {
		var view View
		var version uint64
		until, err := ask(ctx, &n.calls, func() (until time.Time) {
			if c, ok := n.machine.(interface{ PauseVersion() uint64 }); ok {
				version = c.PauseVersion()
			}
			until, _ = n.paused()
			if view = n.view(); length == 0 && !until.IsZero() && !view.Defined() {
				n.emit(election.Event{Kind: election.Pausing})
				until = time.Time{}
			}
			return until
		})
		if first {
			before = version
		}
		switch {
		case err != nil, length == 0 && until.IsZero() && !view.Defined(), agreed && version > before:
			return err
		case first, view.Defined() && view.Token != asked: // a leader that ends may not have passed it on
			asked = view.Token
			answered, err := n.Election(n.cfg.Election).askLeader(ctx, named.Request{Do: named.DoPause, Length: length})
			if err != nil {
				return err
			}
			agreed = agreed || answered
		default:
			select {
			case <-time.After(10 * time.Millisecond): // the leader has it; it arrives with the next heartbeat
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}
