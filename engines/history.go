package engines

import (
	"context"
	"iter"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/eventlog"
)

// history is what an election has seen, for any number of readers.
type history struct{ *eventlog.List[seen] }

// seen is an event, with those that have led to the view after it.
type seen struct {
	batuta.Event
	led, lost *batuta.Event // the last event that began a leadership, and the event that ended it; nil: none
}

func newHistory(first batuta.View) *history {
	return &history{eventlog.New(seen{Event: batuta.Event{View: first}}, batuta.MaxBacklog)}
}

// add appends an event. Only a single goroutine at a time may call it.
func (h *history) add(ev batuta.Event) {
	last := h.Last().Event
	now := seen{ev, last.led, last.lost}
	switch ev.Kind {
	case batuta.EventLeader:
		now.led, now.lost = &ev, nil
	case batuta.EventLost:
		now.lost = &ev
	}
	h.Add(now)
}

// origin is the events that explain the present view, for a reader that begins here.
func (s seen) origin() (first []batuta.Event) {
	for _, ev := range []*batuta.Event{s.led, s.lost} {
		if ev != nil {
			first = append(first, *ev)
		}
	}
	return first
}

func (h *history) view() batuta.View { return h.Last().Event.View }

// Watch yields this candidate's views in order, none skipped, the present one first, until ctx
// or the election ends. It begins at the view that is present when Watch is called. The error is nil,
// except for a reader that falls behind: the last view that it receives is the zero View, with
// [batuta.ErrBehind].
func (e *Election) Watch(ctx context.Context) iter.Seq2[batuta.View, error] {
	l := e.history.List
	return eventlog.Walk(ctx, l, l.Place(), batuta.ErrBehind, func(s seen) []batuta.View { return []batuta.View{s.View} },
		func(s seen) (batuta.View, bool) { return s.View, s.Kind != batuta.EventStanding })
}

// Events yields everything that this candidate sees, in order, none skipped, until ctx or
// the election ends; first what led to the present view, if anything. Else it is as [Election.Watch].
func (e *Election) Events(ctx context.Context) iter.Seq2[batuta.Event, error] {
	l := e.history.List
	return eventlog.Walk(ctx, l, l.Place(), batuta.ErrBehind, seen.origin, func(s seen) (batuta.Event, bool) { return s.Event, true })
}
