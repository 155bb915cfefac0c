package peeragent

import (
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/batuta-dev/batuta/internal/api/reply"
)

// feed makes the events of a [stream] from those of [follow.On], with the name and the content that line returns. If
// the reader was too slow, line first makes an event that reports it, and then events of the present state. Any further
// error ends the feed.
func feed[E any](log *slog.Logger, behind error, events iter.Seq2[E, error], line func(e E, behind bool) (name string, l any)) iter.Seq[reply.Event] {
	return func(yield func(reply.Event) bool) {
		for e, err := range events {
			late := errors.Is(err, behind)
			if late {
				log.Warn("a client reads its event stream too slowly, and some events are left out", "error", err)
				err = nil
			}
			var name string
			var body []byte
			if err == nil {
				var l any
				name, l = line(e, late)
				body, err = json.Marshal(l)
			}
			if err != nil {
				log.Warn("an event stream has ended", "error", err)
				return
			}
			if !yield(reply.Event{Name: name, JSON: body}) {
				return
			}
		}
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
