package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta/election"
)

// refusals count refused requests.
type refusals struct{ *prometheus.CounterVec }

func newRefusals() refusals {
	r := refusals{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "batuta_http_requests_refused_total",
		Help: "HTTP requests refused, by reason: host, origin, token, role; or connections: tls."}, []string{"reason"})}
	for _, reason := range []string{"host", "origin", "token", "role", "tls"} {
		r.WithLabelValues(reason)
	}
	return r
}

func (r refusals) count(reason string) { r.WithLabelValues(reason).Inc() }

// connectionErrors handles an HTTP server's errors about connections. A client that fails the TLS
// handshake is refused; a client that disconnects before it sends anything has only checked whether
// the port is open.
type connectionErrors struct{ s *Server }

// Write implements [io.Writer].
func (e connectionErrors) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	who, ours := strings.CutPrefix(text, "http: TLS handshake error from ")
	if !ours || strings.HasSuffix(who, ": EOF") {
		e.s.log.Debug("HTTP connection", "error", text)
		return len(line), nil
	}
	from, why, _ := strings.Cut(who, ": ")
	host, _, _ := net.SplitHostPort(from)
	e.s.refusals.Warn(e.s.log, host, "tls", "HTTP connection refused", "from", from, "reason", "tls", "error", election.Shown(why))
	e.s.refused.count("tls")
	return len(line), nil
}

// policy restricts a browser to the API's own pages: run and show what comes from here, and nothing
// else.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// hardened sets headers against pages of foreign origins.
func hardened(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses pages of foreign origins, for reads and changes.
func (s *Server) sameOrigin(next http.Handler) http.Handler {
	deny := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusForbidden, "origin", "a page of another origin may not do this")
	})
	guard := http.NewCrossOriginProtection() // handles requests without an Origin header
	guard.SetDenyHandler(deny)
	return guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
				deny.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	}))
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
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
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
