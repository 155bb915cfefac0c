package peeragent

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/batuta-dev/batuta/internal/api/reply"
	"github.com/batuta-dev/batuta/internal/follow"
)

// feed makes the events of a [stream] from lines.
type feed struct {
	ctx    context.Context
	cancel context.CancelFunc
	log    *slog.Logger
	events chan reply.Event
}

// newFeed begins a feed that lasts until ctx ends or [feed.end] is called, which must be once
// each [pour] has returned.
func newFeed(ctx context.Context, log *slog.Logger) *feed {
	ctx, cancel := context.WithCancel(ctx)
	return &feed{ctx, cancel, log, make(chan reply.Event)}
}

// all returns the events to send.
func (f *feed) all() <-chan reply.Event { return f.events }

// end ends the stream.
func (f *feed) end() {
	f.cancel()
	close(f.events)
}

// pour sends an event for each e of watch, with the name and the content that line returns, unless
// the name is empty. If the reader was too slow, line first makes an event that reports it, and
// then events of the present state; see [follow.On]. Any further error ends the feed.
func pour[E any](f *feed, behind error, watch func(context.Context) iter.Seq2[E, error], line func(e E, behind bool) (name string, l any)) {
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

func (f *feed) fail(err error) {
	f.log.Warn("an event stream has ended", "error", err)
	f.cancel()
}

// send reports whether the stream is still open.
func (f *feed) send(name string, line any) bool {
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

// stream answers with server-sent events, and pings while there are none, until events ends or the
// client disconnects.
func stream(w http.ResponseWriter, r *http.Request, events <-chan reply.Event) {
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
