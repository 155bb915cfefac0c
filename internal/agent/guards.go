package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta/election"
)

// refusals count the requests that were not let through.
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

// connectionErrors takes what an HTTP server says of its connections. Who does not get
// past the handshake of TLS is refused; who ends before it has said anything has looked
// whether the port is open.
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
	e.s.log.Warn("HTTP connection refused", "from", from, "reason", "tls", "error", election.Shown(why))
	e.s.refused.count("tls")
	return len(line), nil
}

// policy is what a browser may do with the pages of the API: run and show what comes
// from here, and nothing else.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// hardened sets the headers that keep a browser from helping a page of another origin.
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

// sameOrigin refuses pages of other origins, whether they would read or change.
func (s *Server) sameOrigin(next http.Handler) http.Handler {
	deny := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.refuse(w, r, http.StatusForbidden, "origin", "a page of another origin may not do this")
	})
	guard := http.NewCrossOriginProtection() // knows what does not name its origin
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

// HealthServer answers load balancers and orchestrators, and nothing else: yes or no,
// whether this member leads, lives, and knows a leader. It names nobody, so that it may
// be open to all.
type HealthServer struct{ http *http.Server }

// NewHealthServer makes the health server of node.
func NewHealthServer(node Node, log *slog.Logger) *HealthServer {
	s := &Server{node: node, log: log, leaderlessTime: newLeaderlessTime(time.Now()), refused: newRefusals()}
	mux := http.NewServeMux()
	for _, r := range s.routes() {
		for _, path := range open {
			if r.path == path {
				mux.HandleFunc("GET "+path, func(w http.ResponseWriter, req *http.Request) { r.do(bare{w}, req) })
			}
		}
	}
	return &HealthServer{&http.Server{
		Handler: hardened(http.MaxBytesHandler(mux, maxBody)), ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
}

// Serve answers on l until Close.
func (s *HealthServer) Serve(l net.Listener) error {
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
