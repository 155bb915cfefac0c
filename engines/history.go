package engines

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/batuta-dev/batuta"
)

// history is what an election has seen: a list that readers walk at their own pace. What
// all have passed is garbage.
type history struct {
	mu        sync.Mutex
	tail      *entry
	led, lost *batuta.Event // that made the present view
	readers   map[*reader]struct{}
	ended     bool
}

// entry is one event; more is closed when next is there, or when nothing follows.
type entry struct {
	batuta.Event
	more chan struct{}
	next *entry
}

// reader is one walk along a history.
type reader struct {
	at     *entry // the last that it was given; nil: it is too far behind
	behind int
}

func newHistory(first batuta.View) *history {
	return &history{tail: &entry{Event: batuta.Event{View: first}, more: make(chan struct{})}, readers: map[*reader]struct{}{}}
}

func (h *history) add(ev batuta.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch ev.Kind {
	case batuta.EventLeader:
		h.led, h.lost = &ev, nil
	case batuta.EventLost:
		h.lost = &ev
	}
	e := &entry{Event: ev, more: make(chan struct{})}
	last := h.tail
	last.next, h.tail = e, e
	close(last.more)
	for r := range h.readers {
		if r.behind++; r.behind > batuta.MaxBacklog {
			r.at = nil
			delete(h.readers, r)
		}
	}
}

// end tells that nothing follows.
func (h *history) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.ended {
		h.ended = true
		close(h.tail.more)
	}
}

// present is the last entry.
func (h *history) present() *entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tail
}

func (h *history) view() batuta.View { return h.present().View }

// after waits for what follows e; nil when ctx or the history ends.
func (h *history) after(ctx context.Context, e *entry) *entry {
	select {
	case <-e.more:
	case <-ctx.Done():
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return e.next
}

// join takes a place at the present: the view, and the events that have led to it.
func (h *history) join() (r *reader, view batuta.View, first []batuta.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, ev := range []*batuta.Event{h.led, h.lost} {
		if ev != nil {
			first = append(first, *ev)
		}
	}
	r = &reader{at: h.tail}
	h.readers[r] = struct{}{}
	return r, h.tail.View, first
}

func (h *history) leave(r *reader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, r)
}

// errOver: nothing follows, or the reader's context has ended.
var errOver = errors.New("no more events")

func (h *history) next(ctx context.Context, r *reader) (batuta.Event, error) {
	h.mu.Lock()
	at := r.at
	h.mu.Unlock()
	if at == nil {
		return batuta.Event{}, batuta.ErrBehind
	}
	if at = h.after(ctx, at); at == nil {
		return batuta.Event{}, errOver
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.at != nil {
		r.at = at
		r.behind--
	}
	return at.Event, nil
}

// Watch yields this candidate's views in order, none skipped, the present one first, until ctx
// or the election ends. Its place is taken when Watch is called. The error is nil but
// for a reader that falls behind: to that the last thing yielded is the zero View with
// [batuta.ErrBehind].
func (e *Election) Watch(ctx context.Context) iter.Seq2[batuta.View, error] {
	r, view, _ := e.history.join()
	return func(yield func(batuta.View, error) bool) {
		defer e.history.leave(r)
		if !yield(view, nil) {
			return
		}
		e.walk(ctx, r, func(ev batuta.Event, err error) bool {
			if err != nil {
				return yield(batuta.View{}, err)
			}
			return ev.Kind == batuta.EventStanding || yield(ev.View, nil)
		})
	}
}

// Events yields everything that this candidate sees, in order, none skipped, until ctx or
// the election ends; first what led to the present view, if anything. Else it is as [Election.Watch].
func (e *Election) Events(ctx context.Context) iter.Seq2[batuta.Event, error] {
	r, _, first := e.history.join()
	return func(yield func(batuta.Event, error) bool) {
		defer e.history.leave(r)
		for _, ev := range first {
			if !yield(ev, nil) {
				return
			}
		}
		e.walk(ctx, r, yield)
	}
}

func (e *Election) walk(ctx context.Context, r *reader, yield func(batuta.Event, error) bool) {
	for {
		ev, err := e.history.next(ctx, r)
		if err == batuta.ErrBehind {
			yield(batuta.Event{}, err)
			return
		}
		if err != nil || !yield(ev, nil) {
			return
		}
	}
}
