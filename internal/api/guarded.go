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
