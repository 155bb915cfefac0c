package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// events streams what the node sees as server-sent events, the current view
// first. The node never waits for a client: each reads at its own pace, and one
// that does not take an event within writeTimeout is cut off.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		fail(w, http.StatusServiceUnavailable, "%d event streams are open already; close one", maxStreams)
		return
	}
	of, err := s.chosen(r)
	if err != nil {
		fail(w, http.StatusBadRequest, "%v", err)
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
	named string // that one; "": none
}

// chosen reads it from a request: the cluster's own, with election=NAME that one in its
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

// eventChannel has the node's events until ctx or the node ends, or somebody reads too slowly.
func (s *Server) eventChannel(ctx context.Context, of choice) <-chan Named {
	events := make(chan Named)
	ctx, cancel := context.WithCancel(ctx)
	send := func(l Line, err error) bool {
		body, cannot := json.Marshal(l)
		if err = errors.Join(err, cannot); err != nil {
			s.log.Warn("an event stream has ended", "err", err)
			cancel()
			return false
		}
		select {
		case events <- Named{l.Event, body}:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var sources sync.WaitGroup
	if of.own {
		sources.Go(func() {
			for ev, err := range s.node.Events(ctx) {
				if !send(EventLine(s.node.ID(), ev), err) {
					return
				}
			}
		})
	}
	if e, ok := s.many(); ok && !(of.own && !of.all) {
		sources.Go(func() {
			for v, err := range e.Elections(ctx) {
				l, told := NamedLine(s.node.ID(), v)
				if shown := told && (of.all || v.Election == of.named); (shown || err != nil) && !send(l, err) {
					return
				}
			}
		})
	}
	go func() {
		defer cancel()
		sources.Wait()
		close(events)
	}()
	return events
}

// Named is an event of a stream: its name, and what it says, as JSON.
type Named struct {
	Name string
	JSON []byte
}

// Stream answers with events as server-sent ones, and pings while there are none, until
// events ends or the client goes.
func Stream(w http.ResponseWriter, r *http.Request, events <-chan Named) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	out := &stream{w: w, rc: http.NewResponseController(w)}
	// A stream outlives the time a request has to arrive.
	_ = out.rc.SetReadDeadline(time.Time{})
	if r.Method == http.MethodHead || out.flush() != nil {
		return
	}
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for {
		var err error
		select {
		case e, ok := <-events:
			if !ok {
				return
			}
			err = out.event(e)
		case <-ping.C:
			err = out.ping()
		case <-r.Context().Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// stream writes server-sent events, each under a deadline of its own.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stream) event(e Named) error {
	return s.write("event: %s\ndata: %s\n\n", e.Name, e.JSON)
}

func (s *stream) ping() error { return s.write(": nothing new\n\n") }

func (s *stream) write(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.w, format, args...); err != nil {
		return err
	}
	return s.flush()
}

func (s *stream) flush() error {
	// Where the deadline cannot be set there is none to extend.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	return s.rc.Flush()
}
