package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/batuta-dev/batuta"
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
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	out := &stream{w: w, rc: http.NewResponseController(w)}
	// A stream outlives the time a request has to arrive.
	_ = out.rc.SetReadDeadline(time.Time{})
	if r.Method == http.MethodHead || out.flush() != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s.pump(ctx, out)
}

// pump copies events, and pings while there are none, until the client or the node ends.
func (s *Server) pump(ctx context.Context, out *stream) {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	events := s.eventChannel(ctx)
	for {
		var err error
		select {
		case ev, ok := <-events:
			if !ok {
				return
			}
			err = out.event(EventLine(s.node.ID(), ev))
		case <-ping.C:
			err = out.ping()
		}
		if err != nil {
			return
		}
	}
}

func (s *Server) eventChannel(ctx context.Context) <-chan batuta.Event {
	events := make(chan batuta.Event)
	go func() {
		defer close(events)
		for ev, err := range s.node.Events(ctx) {
			if err != nil {
				s.log.Warn("an event stream has ended", "err", err)
				return
			}
			select {
			case events <- ev:
			case <-ctx.Done():
				return
			}
		}
	}()
	return events
}

// stream writes server-sent events, each under a deadline of its own.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stream) event(l Line) error {
	body, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return s.write("event: %s\ndata: %s\n\n", l.Event, body)
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
