package api

import (
	"log/slog"
	"net/http"

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

// Answer sends v as JSON, Fail an error as batuta's agents do.
func Answer(w http.ResponseWriter, code int, v any) { answer(w, code, v) }

// AnswerMuch is Answer for what may be long: it is compressed for a client that accepts that.
func AnswerMuch(w http.ResponseWriter, r *http.Request, v any) { answerMuch(w, r, v) }

// Fail answers with an error.
func Fail(w http.ResponseWriter, code int, format string, args ...any) {
	fail(w, code, format, args...)
}
