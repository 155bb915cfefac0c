package batuta

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// elections is what watchers see of named elections.
type elections struct {
	until atomic.Int64 // on the node's clock: when this member leads none any more

	mu    sync.RWMutex
	ended bool
	views map[string][]View   // by name and seat; of a name that nobody stands for there is none
	were  map[place]View      // where no member leads: the view of the leadership before
	names map[string]*history // of those that are watched
	every *history            // of all; nil: nobody watches
}

// place is a seat of an election.
type place struct {
	name string
	seat int
}

// newElections are none.
func newElections() elections {
	return elections{views: map[string][]View{}, were: map[place]View{}, names: map[string]*history{}}
}

// tell takes a view in.
func (e *elections) tell(v View) {
	e.mu.Lock()
	defer e.mu.Unlock()
	seats := e.views[v.Election]
	for len(seats) <= v.Seat {
		seats = append(seats, View{Election: v.Election, Seat: len(seats)})
	}
	if at := (place{v.Election, v.Seat}); v.Defined() {
		delete(e.were, at)
	} else if before := seats[v.Seat]; before.Defined() {
		e.were[at] = before
	}
	seats[v.Seat] = v
	e.views[v.Election] = seats
	now := seen{Event: event(v)} // of these histories views alone are read: see origin
	if h := e.names[v.Election]; h != nil {
		h.Add(now)
	}
	if e.every != nil {
		e.every.Limit(MaxBacklog + 2*len(e.views)) // one change of all leaders is no reader's fault
		e.every.Add(now)
	}
}

// forget drops a seat that nobody stands for any more.
func (e *elections) forget(name string, seat int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.were, place{name, seat})
	seats := e.views[name]
	if seat < len(seats) {
		seats[seat] = View{Election: name, Seat: seat}
	}
	if !slices.ContainsFunc(seats, View.Defined) {
		delete(e.views, name)
	}
}

// list are the views of one name, or of all.
func (e *elections) list(name string) (views []View) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if name != "" {
		return slices.Clone(e.views[name])
	}
	for _, name := range slices.Sorted(maps.Keys(e.views)) {
		views = append(views, e.views[name]...)
	}
	return views
}

func (e *elections) leader(name string, n *Node) View {
	e.mu.RLock()
	defer e.mu.RUnlock()
	first := View{Election: name, Since: n.born}
	for i, v := range e.views[name] {
		if v = n.unlessLate(v); v.Token.Leader.ID == n.id || i == 0 || !first.Defined() && v.Defined() {
			first = v
		}
	}
	return first
}

// watched is the history of a name.
func (e *elections) watched(name string) *history {
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.names[name]
	if h == nil {
		first := View{Election: name}
		for i, v := range e.views[name] {
			if i == 0 || !first.Defined() && v.Defined() {
				first = v
			}
		}
		h = newHistory(first)
		e.names[name] = h
		if e.ended {
			h.End()
		}
	}
	return h
}

// all gives the present views of all, each loss behind its leadership, and then what follows them, behind one view that does not count.
func (e *elections) all(ctx context.Context) (first []View, all iter.Seq2[View, error]) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.every == nil {
		e.every = newHistory(View{})
		if e.ended {
			e.every.End()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.views)) {
		for _, v := range e.views[name] {
			if before, ok := e.were[place{name, v.Seat}]; ok {
				first = append(first, before)
			}
			first = append(first, v)
		}
	}
	return first, e.every.views(ctx)
}

func (e *elections) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	for _, h := range e.names {
		h.End()
	}
	if e.every != nil {
		e.every.End()
	}
}
