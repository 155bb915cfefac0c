// Package eventlog is a list of events with any number of independent readers.
package eventlog

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
)

// List is the events, in order. Entries that all readers have passed are garbage; entries that a
// reader has not passed are kept for it, up to a limit.
type List[E any] struct {
	tail atomic.Pointer[Entry[E]]

	mu      sync.Mutex
	over    bool
	limit   int
	readers map[*Reader[E]]struct{}
}

// Entry is an event and, once there is a next entry, the link to it.
type Entry[E any] struct {
	Event E
	more  chan struct{} // closed when then is set, or the list is over
	then  *Entry[E]
}

// New begins a list with an event. A reader may be at most limit events behind.
func New[E any](first E, limit int) *List[E] {
	l := &List[E]{limit: limit}
	l.tail.Store(&Entry[E]{Event: first, more: make(chan struct{})})
	return l
}

// Limit sets how many events a reader may be behind from now on.
func (l *List[E]) Limit(events int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = events
}

// passed is the channel of an entry that a further entry was added with.
var passed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Add appends events, unless the list is over. It must not be called concurrently.
func (l *List[E]) Add(events ...E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || len(events) == 0 {
		return
	}
	tail := l.tail.Load()
	waits, next := tail.more, tail
	for _, e := range events {
		next.then = &Entry[E]{Event: e, more: passed}
		next = next.then
	}
	next.more = make(chan struct{})
	l.tail.Store(next)
	close(waits)
	for r := range l.readers {
		if r.behind += len(events); r.behind > l.limit {
			r.at = nil // what waits for it is garbage
			delete(l.readers, r)
		}
	}
}

// End ends the list. It is called once.
func (l *List[E]) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	close(l.tail.Load().more)
}

// Last returns the newest entry.
func (l *List[E]) Last() *Entry[E] { return l.tail.Load() }

// Next waits for the entry after at; nil when ctx or the list is over.
func (l *List[E]) Next(ctx context.Context, at *Entry[E]) *Entry[E] {
	select {
	case <-at.more:
		return at.then
	case <-ctx.Done():
		return nil
	}
}

// Readers returns how many readers have a place.
func (l *List[E]) Readers() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.readers)
}

// Reader is a reader's position in a list. The list's lock guards its fields.
type Reader[E any] struct {
	at     *Entry[E] // the last entry that it got; nil: it is too far behind
	behind int
}

// Place reserves a place at the present for a reader. The returned function returns that place and
// its event once; further calls return places at the then present entry.
func (l *List[E]) Place() func() (*Reader[E], E) {
	type place struct {
		r  *Reader[E]
		at E
	}
	join := func() *place {
		l.mu.Lock()
		defer l.mu.Unlock()
		r := &Reader[E]{at: l.tail.Load()}
		if l.readers == nil { // most lists have no reader
			l.readers = map[*Reader[E]]struct{}{}
		}
		l.readers[r] = struct{}{}
		return &place{r, r.at.Event}
	}
	var taken atomic.Pointer[place]
	taken.Store(join())
	return func() (*Reader[E], E) {
		p := taken.Swap(nil)
		if p == nil {
			p = join()
		}
		return p.r, p.at
	}
}

// leave removes a reader.
func (l *List[E]) leave(r *Reader[E]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, r)
}

// next waits for a reader's next event. There is none when the list or ctx is over, or when the
// reader is too far behind.
func (l *List[E]) next(ctx context.Context, r *Reader[E]) (e E, ok, behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r.at != nil && r.at.then == nil {
		at := r.at
		l.mu.Unlock()
		at = l.Next(ctx, at)
		l.mu.Lock()
		if at == nil {
			return e, false, false
		}
	}
	if r.at == nil || ctx.Err() != nil {
		return e, false, r.at == nil
	}
	r.at = r.at.then
	r.behind--
	return r.at.Event, true, false
}

// Walk yields the values of first for the event at the reader's place. Then it yields the value of
// each for every later event, unless that returns false, until ctx or the list ends. If the reader
// is too far behind, Walk yields the error behind as the last value.
func Walk[E, V any](ctx context.Context, l *List[E], place func() (*Reader[E], E), behind error, first func(E) []V, each func(E) (V, bool)) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		r, at := place()
		defer l.leave(r)
		for _, v := range first(at) {
			if !yield(v, nil) {
				return
			}
		}
		for {
			e, ok, late := l.next(ctx, r)
			if late {
				var none V
				yield(none, behind)
			}
			if !ok {
				return
			}
			if v, told := each(e); told && !yield(v, nil) {
				return
			}
		}
	}
}
