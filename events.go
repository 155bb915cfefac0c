package batuta

import (
	"context"
	"iter"
	"sync/atomic"
	"time"
)

// View is who leads, as one member sees it.
type View struct {
	Election string
	Token    Token     // zero: undefined
	Address  string    // of the leader, HOST:PORT
	Since    time.Time // when this view began
	Lost     Token     // while undefined: the leadership that ended; zero at first
	Cause    Cause     // while undefined: why it ended
}

// Defined reports whether the view names a leader.
func (v View) Defined() bool { return v.Token.Defined() }

// EventKind says what an [Event] tells.
type EventKind string

// Kinds of Event.
const (
	EventLeader EventKind = "leader" // View names a leader
	EventLost   EventKind = "lost"   // View.Lost has ended by View.Cause
	EventMember EventKind = "member" // Member's State has changed
)

// Event is one change that a member has seen.
type Event struct {
	Time    time.Time
	Kind    EventKind
	View    View        // the view after the event
	Member  ID          // EventMember
	State   MemberState // EventMember
	Address string      // EventMember: HOST:PORT
}

// Watch yields this member's views in order, none skipped, the current one
// first, until ctx or the node ends. A slow reader holds up nobody.
func (n *Node) Watch(ctx context.Context) iter.Seq[View] {
	return func(yield func(View) bool) {
		at := n.history.last()
		if !yield(at.View) {
			return
		}
		for at = n.history.next(ctx, at); at != nil; at = n.history.next(ctx, at) {
			if at.Kind != EventMember && !yield(at.View) {
				return
			}
		}
	}
}

// Events yields everything this member sees, in order, none skipped. The current
// view comes first: as a leader event, or as the lost event that led to it, or
// not at all when no leader was ever known. It ends with ctx or the node.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] {
	return func(yield func(Event) bool) {
		at := n.history.last()
		if ev, known := current(at.View); known && !yield(ev) {
			return
		}
		for at = n.history.next(ctx, at); at != nil; at = n.history.next(ctx, at) {
			if !yield(at.Event) {
				return
			}
		}
	}
}

// current is the event that led to v; unknown when there was none yet.
func current(v View) (ev Event, known bool) {
	switch {
	case v.Defined():
		return Event{Time: v.Since, Kind: EventLeader, View: v}, true
	case v.Lost.Defined():
		return Event{Time: v.Since, Kind: EventLost, View: v}, true
	}
	return Event{}, false
}

// history is a list of events that any number of watchers walk at their own
// pace. What all have passed is garbage; what one has not is kept for it.
type history struct {
	tail atomic.Pointer[happening]
	over chan struct{} // closed after the last event
}

// happening is an event and, once more is closed, the way to the next.
type happening struct {
	Event
	more chan struct{}
	then *happening
}

func newHistory(first View) *history {
	h := &history{over: make(chan struct{})}
	h.tail.Store(&happening{Event: Event{View: first}, more: make(chan struct{})})
	return h
}

// add appends an event. One goroutine at a time may call it.
func (h *history) add(ev Event) {
	tail := h.tail.Load()
	tail.then = &happening{Event: ev, more: make(chan struct{})}
	h.tail.Store(tail.then)
	close(tail.more)
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
