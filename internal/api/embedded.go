package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/web"
)

// This file provides parts of the API to other servers: that of a service, of load balancers, and of the agent of super
// peers.

// Embedded returns the API of node for a service's own server, without metrics, which belong to the
// service's registry. Without changes it is read-only. It refuses pages of foreign origins; the
// server decides which clients and host names to accept.
func Embedded(node Node, version string, changes bool) http.Handler {
	s := &Server{member: member{node}, version: version, log: slog.New(slog.DiscardHandler), streams: make(chan struct{}, maxStreams), turns: newTurns(), refused: newRefusals()}
	s.readOnly = !changes
	s.history, s.recorder, s.page = newHistory(time.Now()), newRecorder(node, s.log), web.Dashboard().Handler()
	go s.history.follow(context.Background(), node) // until the node ends
	routes := slices.DeleteFunc(s.routes(), func(r route) bool {
		return r.method != http.MethodGet && !changes
	})
	return hardened(s.sameOrigin(s.handler(routes)))
}

// NewCollector exports the metrics of node to a service's registry, until node ends.
func NewCollector(node Node, version string) prometheus.Collector {
	d := newLeaderlessTime(time.Now())
	go d.follow(context.Background(), node)
	all := prometheus.NewRegistry()
	all.MustRegister(newCollector(node, version, d), d.failover)
	return all
}

// HealthServer answers load balancers and orchestrators with a status code: whether this member
// leads, lives, and knows a leader. It has the metrics, too. Those name this member, its cluster,
// and refused members. It changes nothing, and needs no token.
type HealthServer struct {
	http   *http.Server
	follow func(context.Context) // updates the metrics; nil: the API does
}

// NewHealthServer makes the health server of node. Its metrics are those of api, the API of the
// same node, or its own if api is nil.
func NewHealthServer(node Node, version string, log *slog.Logger, api *Server) *HealthServer {
	var follow func(context.Context)
	if api == nil {
		api = NewServer(node, "", version, log)
		follow = func(ctx context.Context) { api.leaderlessTime.follow(ctx, node) }
	}
	mux := http.NewServeMux()
	for _, r := range api.routes() {
		switch {
		case r.path == metricsPath:
			mux.HandleFunc("GET "+r.path, r.do)
		case slices.Contains(open, r.path):
			mux.HandleFunc("GET "+r.path, func(w http.ResponseWriter, req *http.Request) { r.do(bare{w}, req) })
		}
	}
	return &HealthServer{follow: follow, http: &http.Server{
		Handler: hardened(http.MaxBytesHandler(mux, maxBody)), ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader, ConnState: access.EachClient(access.MaxConnections() / 2),
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

// Serve answers on l until Close.
func (s *HealthServer) Serve(l net.Listener) error {
	if s.follow != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go s.follow(ctx)
	}
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Close stops it.
func (s *HealthServer) Close(ctx context.Context) {
	if s.http.Shutdown(ctx) != nil {
		s.http.Close()
	}
}

// Guarded protects calls of a different agent as this API's own calls: by accepted host names,
// origins, tokens (nil: none are needed) and bounds on requests. The collector counts refused
// requests.
func Guarded(calls http.Handler, tokens *access.Tokens, log *slog.Logger, names ...string) (http.Handler, prometheus.Collector) {
	s := &Server{tokens: tokens, log: log, refused: newRefusals()}
	h := http.MaxBytesHandler(calls, maxBody)
	return hardened(s.ownHost(newHosts(names), s.sameOrigin(s.authorize(h)))), s.refused
}

// GuardedServer serves such calls with this API's deadlines.
func GuardedServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ConnContext: access.Connection, ConnState: access.EachClient(access.MaxConnections() / 2), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
