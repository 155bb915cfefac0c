package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
)

// events streams what the node sees as server-sent events, the current view
// first. The node never waits for a client: each reads at its own pace, and one
// that does not take an event within writeTimeout is cut off.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		reply.Fail(w, http.StatusServiceUnavailable, "%d event streams are open already; close one", maxStreams)
		return
	}
	of, err := s.chosen(r)
	if err != nil {
		reply.Fail(w, http.StatusBadRequest, "%v", err)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	Stream(w, r, s.eventChannel(ctx, of))
}

// choice says which elections a stream is about.
type choice struct {
	own   bool
	all   bool
	named string // its name; "": none
}

// chosen reads it from a request: the cluster's own, with election=NAME the named election in its
// place, and with elections=true all.
func (s *Server) chosen(r *http.Request) (choice, error) {
	q := r.URL.Query()
	name, all := q.Get("election"), q.Get("elections")
	switch {
	case all != "" && all != "true" && all != "false":
		return choice{}, fmt.Errorf("elections=%q: write true, or leave it out", all)
	case all == "true" && name != "":
		return choice{}, errors.New("election and elections are both there: leave one out")
	case name == "" || name == s.node.Leader().Election:
		return choice{own: true, all: all == "true"}, nil
	}
	e, ok := s.many()
	if !ok {
		return choice{}, fmt.Errorf(noElection, name)
	}
	el := e.Election(name)
	for _, err := range el.Watch(r.Context()) {
		return choice{named: el.Name()}, err
	}
	return choice{named: el.Name()}, nil
}

// eventChannel has the node's events until ctx or the node ends. A reader that is too far
// behind is told so, and goes on with what is so now.
func (s *Server) eventChannel(ctx context.Context, of choice) <-chan reply.Event {
	f := NewFeed(ctx, s.log)
	var sources sync.WaitGroup
	if of.own {
		sources.Go(func() {
			Pour(f, batuta.ErrBehind, s.node.Events, func(ev batuta.Event, behind bool) (string, any) {
				l := EventLine(s.node.ID(), ev)
				if behind {
					l = BehindLine(s.node.ID(), time.Now(), s.node.Leader().Election)
				}
				return l.Event, l
			})
		})
	}
	if e, ok := s.many(); ok && !(of.own && !of.all) {
		sources.Go(func() {
			Pour(f, batuta.ErrBehind, e.Elections, func(v batuta.View, behind bool) (string, any) {
				l, told := NamedLine(s.node.ID(), v)
				switch {
				case behind:
					l = BehindLine(s.node.ID(), time.Now(), of.named)
				case !told || !of.all && v.Election != of.named:
					return "", nil
				}
				return l.Event, l
			})
		})
	}
	go func() {
		sources.Wait()
		f.End()
	}()
	return f.Events()
}

// Feed makes the events of a [Stream] out of lines.
type Feed struct {
	ctx    context.Context
	cancel context.CancelFunc
	log    *slog.Logger
	events chan reply.Event
}

// NewFeed begins one that lasts until ctx ends or [Feed.End] is called, which must be once
// each [Pour] has returned.
func NewFeed(ctx context.Context, log *slog.Logger) *Feed {
	ctx, cancel := context.WithCancel(ctx)
	return &Feed{ctx, cancel, log, make(chan reply.Event)}
}

// Events are what a [Stream] is to send.
func (f *Feed) Events() <-chan reply.Event { return f.events }

// End ends the stream.
func (f *Feed) End() {
	f.cancel()
	close(f.events)
}

// Pour sends what line makes of what watch gives, under the name that it gives, unless that is
// empty. Where the reader was too far behind, line makes what tells it so, and then of what is
// so now; see [follow.On]. Any other error ends the feed.
func Pour[E any](f *Feed, behind error, watch func(context.Context) iter.Seq2[E, error], line func(e E, behind bool) (name string, l any)) {
	for e, err := range follow.On(f.ctx, behind, watch) {
		switch {
		case errors.Is(err, behind):
			f.log.Warn("a client reads its event stream too slowly, and some events are left out", "error", err)
		case err != nil:
			f.fail(err)
			return
		}
		if name, l := line(e, err != nil); name != "" && !f.send(name, l) {
			return
		}
	}
}

func (f *Feed) fail(err error) {
	f.log.Warn("an event stream has ended", "error", err)
	f.cancel()
}

// send reports whether the stream goes on.
func (f *Feed) send(name string, line any) bool {
	body, err := json.Marshal(line)
	if err != nil {
		f.fail(err)
		return false
	}
	select {
	case f.events <- reply.Event{Name: name, JSON: body}:
		return true
	case <-f.ctx.Done():
		return false
	}
}

// Stream answers with events as server-sent ones, and pings while there are none, until
// events ends or the client goes.
func Stream(w http.ResponseWriter, r *http.Request, events <-chan reply.Event) {
	out := reply.NewStream(w)
	if r.Method == http.MethodHead || out.Flush() != nil {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var e reply.Event
		ok := true
		select {
		case e, ok = <-events:
		case <-ping.C:
		case <-r.Context().Done():
			return
		}
		if !ok || out.Send(e) != nil {
			return
		}
	}
}
