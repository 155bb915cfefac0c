package agent

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Guarded puts another agent's calls behind what protects this one's: the names that it may
// be asked under, pages of other origins, tokens (nil: none are needed), bounds on what is
// read. The collector counts what was refused.
func Guarded(calls http.Handler, tokens *Tokens, log *slog.Logger, names ...string) (http.Handler, prometheus.Collector) {
	s := &Server{tokens: tokens, log: log, refused: newRefusals()}
	h := http.MaxBytesHandler(calls, maxBody)
	return hardened(s.ownHost(newHosts(names), s.sameOrigin(s.authorize(h)))), s.refused
}

// GuardedServer serves such calls with this API's deadlines.
func GuardedServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
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
			err = out.write("event: %s\ndata: %s\n\n", e.Name, e.JSON)
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

// Answer sends v as JSON, Fail an error as batuta's agents do.
func Answer(w http.ResponseWriter, code int, v any) { answer(w, code, v) }

// Fail answers with an error.
func Fail(w http.ResponseWriter, code int, format string, args ...any) {
	fail(w, code, format, args...)
}
