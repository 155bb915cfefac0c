package batuta

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// View is who leads, as one member sees it.
type View struct {
	Election string
	Seat     int       // of an election with several leaders at once: which, from 0; see [Seats]
	Token    Token     // zero: undefined
	Address  string    // of the leader, HOST:PORT
	Since    time.Time // when this view began
	Lost     Token     // while undefined: the leadership that ended; zero at first
	Cause    Cause     // while undefined: why it ended

	Meta map[string]string // what the leader tells of itself, as far as is known by now; not to be changed
}

// Defined reports whether the view names a leader.
func (v View) Defined() bool { return v.Token.Defined() }

// EventKind says what an [Event] tells.
type EventKind string

// Kinds of Event.
const (
	EventLeader   EventKind = "leader"   // View names a leader
	EventLost     EventKind = "lost"     // View.Lost has ended by View.Cause
	EventMember   EventKind = "member"   // Member's State has changed
	EventMeta     EventKind = "meta"     // Member, which may be this one, tells Meta of itself now
	EventStanding EventKind = "standing" // whether this member stands for election has changed; at first it does
)

// Event is one change that a member has seen.
type Event struct {
	Time     time.Time
	Kind     EventKind
	View     View        // the view after the event
	Member   ID          // EventMember, EventMeta
	State    MemberState // EventMember
	Address  string      // EventMember: HOST:PORT
	Standing Standing    // EventStanding
	Why      string      // EventStanding: in words; "" when it is StandingEligible

	Meta map[string]string // EventMeta; not to be changed
}

// MaxBacklog is how many events a reader of [Node.Events] or [Node.Watch] may be
// behind, and one of [Node.Elections] by two more for each election: all may change hands at
// once. One that is further behind is ended by [ErrBehind].
const MaxBacklog = 16384

// ErrBehind is the last thing that [Node.Events] and [Node.Watch] yield to a reader
// that has stopped reading, or reads too slowly: more than [MaxBacklog] events were
// waiting for it, and it has missed them. Call Events or Watch again to go on from
// the present view.
var ErrBehind = fmt.Errorf("the reader of events was more than %d behind and has missed them: read faster, or begin anew at the present view", MaxBacklog)

// Watch yields this member's views in order, none skipped, the present one first,
// until ctx or the node ends. A view whose leader tells something else of itself now
// comes again, with the same Token and another Meta. Its place is taken when Watch is called. The error is
// nil but for a reader that falls behind: to that the last thing yielded is the zero
// View with [ErrBehind]. A slow reader holds up nobody.
func (n *Node) Watch(ctx context.Context) iter.Seq2[View, error] {
	return views(ctx, n.history.place())
}

// views yields the views of a history from a place on.
func views(ctx context.Context, place func() *reader) iter.Seq2[View, error] {
	return func(yield func(View, error) bool) {
		r := place()
		defer r.leave()
		if !yield(r.view, nil) {
			return
		}
		for {
			switch ev, err := r.next(ctx); {
			case err == ErrBehind:
				yield(View{}, err)
				return
			case err != nil:
				return
			case ev.isView() && !yield(ev.View, nil):
				return
			}
		}
	}
}

// Events yields everything this member sees, in order, none skipped, until ctx or
// the node ends. Its place is taken when Events is called: called in
// [Config.Prepare] it tells all of the node's life. The present view comes first, as
// the leader event that began it, and the lost event that ended it if nobody leads;
// nothing when no leader was ever known. So the first event of a leadership is
// always its leader event. The error is nil but for a reader that falls behind: to
// that the last thing yielded is the zero Event with [ErrBehind]. A slow reader
// holds up nobody.
func (n *Node) Events(ctx context.Context) iter.Seq2[Event, error] {
	place := n.history.place()
	return func(yield func(Event, error) bool) {
		r := place()
		defer r.leave()
		for _, ev := range r.first {
			if !yield(ev, nil) {
				return
			}
		}
		for {
			ev, err := r.next(ctx)
			if err == ErrBehind {
				yield(Event{}, err)
				return
			}
			if err != nil || !yield(ev, nil) {
				return
			}
		}
	}
}

// isView reports whether the view is another after the event.
func (ev Event) isView() bool {
	return ev.Kind == EventLeader || ev.Kind == EventLost || ev.Kind == EventMeta && ev.Member == ev.View.Token.Leader.ID
}

// history is a list of events that any number of readers walk at their own pace.
// What all have passed is garbage; what one has not is kept for it, up to a limit.
type history struct {
	over  chan struct{} // closed after the last event
	limit int           // that a reader may be behind
	tail  atomic.Pointer[happening]

	mu      sync.Mutex
	led     Event // the last that began a leadership
	lost    Event // the last that ended one
	readers map[*reader]struct{}
}

// happening is an event and, once more is closed, the way to the next.
type happening struct {
	Event
	more chan struct{}
	then *happening
}

func newHistory(first View) *history {
	h := &history{over: make(chan struct{}), limit: MaxBacklog, readers: map[*reader]struct{}{}}
	h.tail.Store(&happening{Event: Event{View: first}, more: make(chan struct{})})
	return h
}

// add appends an event. One goroutine at a time may call it.
func (h *history) add(ev Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ev.Kind {
	case EventLeader:
		h.led = ev
	case EventLost:
		h.lost = ev
	}
	tail := h.tail.Load()
	tail.then = &happening{Event: ev, more: make(chan struct{})}
	h.tail.Store(tail.then)
	close(tail.more)
	for r := range h.readers {
		if r.behind++; r.behind > h.limit {
			r.at = nil // what waits for it is garbage
			delete(h.readers, r)
		}
	}
}

// end tells that nothing follows.
func (h *history) end() { close(h.over) }

func (h *history) last() *happening { return h.tail.Load() }

// next waits for what follows at; nil when ctx or the history is over.
func (h *history) next(ctx context.Context, at *happening) *happening {
	select {
	case <-at.more:
		return at.then
	case <-ctx.Done():
		return nil
	case <-h.over:
	}
	select {
	case <-at.more:
		return at.then
	default:
		return nil
	}
}

// reader is one walk along a history.
type reader struct {
	history *history
	view    View    // the present one when it began
	first   []Event // that led to it

	// Under the history's lock.
	at     *happening // the last that it was given; nil: it is too far behind
	behind int
}

// place takes a place at the present for a reader. What it returns gives that once,
// and after that places at what is the present then.
func (h *history) place() func() *reader {
	var taken atomic.Pointer[reader]
	taken.Store(h.join())
	return func() *reader {
		if r := taken.Swap(nil); r != nil {
			return r
		}
		return h.join()
	}
}

func (h *history) join() *reader {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := h.tail.Load()
	r := &reader{history: h, view: at.View, at: at}
	switch v := r.view; {
	case v.Defined():
		led := h.led
		led.View.Meta = v.Meta // as it is by now
		r.first = []Event{led}
	case v.Lost.Defined():
		r.first = []Event{h.led, h.lost}
	}
	h.readers[r] = struct{}{}
	return r
}

// leave gives the reader's place up.
func (r *reader) leave() {
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	delete(r.history.readers, r)
}

// errOver: nothing follows, or the reader's context has ended.
var errOver = errors.New("no more events")

// next waits for the next event. Its error is [ErrBehind] or errOver.
func (r *reader) next(ctx context.Context) (Event, error) {
	r.history.mu.Lock()
	at := r.at
	r.history.mu.Unlock()
	if at == nil {
		return Event{}, ErrBehind
	}
	if at = r.history.next(ctx, at); at == nil {
		return Event{}, errOver
	}
	r.history.mu.Lock()
	defer r.history.mu.Unlock()
	if r.at != nil {
		r.at = at
		r.behind--
	}
	return at.Event, nil
}
