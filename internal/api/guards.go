package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api/access"
	"github.com/batuta-dev/batuta/internal/api/candidacy"
	"github.com/batuta-dev/batuta/internal/api/metric"
	"github.com/batuta-dev/batuta/internal/api/reply"
)

// newRefusals counts refused requests.
func newRefusals() *metric.Counts {
	return metric.NewCounts("batuta_http_requests_refused_total", "HTTP requests refused, by reason: host, origin, token, role; or connections: tls.",
		"reason", "host", "origin", "token", "role", "tls")
}

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
	e.s.refused.Inc("tls")
	return len(line), nil
}

// policy restricts a browser to the API's own pages: run and show what comes from here, and nothing
// else.
const policy = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

// hardened sets headers against pages of foreign origins.
func hardened(kind string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set(AgentHeader, kind)
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

// open are the calls that need no token if no [HealthServer] answers them: their answer is then
// only a status code.
var open = []string{"/leader", "/super", "/healthz", "/readyz"}

// authorize accepts requests that the grant of their client permits.
func (s *Server) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.asksAsMember(r) {
			next.ServeHTTP(w, r)
			return
		}
		if err := s.tokens.Refresh(); err != nil {
			s.log.Error("the token file has errors: a line with an error permits nothing, and a file that cannot be read is used as it was read before; fix the file, and it is read again by itself", "error", err)
		}
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		stands := strings.HasPrefix(r.URL.Path, "/v1/elections/") // [Server.permit] decides for which
		grant, err := s.tokens.Of(r)
		switch role := grant.Role; {
		case role >= access.Operate, role == access.Stand && stands, role >= access.Read && reads:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), grantKey{}, grant)))
		case reads && isPage(r):
			next.ServeHTTP(w, r)
		case role >= access.Read:
			s.refuse(w, r, http.StatusForbidden, "role", "a token with the role read or stand may not do this: it needs one with the role operate")
		case reads && r.Header.Get("Authorization") == "" && !s.healthElsewhere && slices.Contains(open, r.URL.Path):
			next.ServeHTTP(bare{w}, r)
		default:
			w.Header().Set("Connection", "close") // it would last for a minute
			w.Header().Add("WWW-Authenticate", `Bearer realm="batuta"`)
			if strings.Contains(r.Header.Get("Accept"), "text/html") {
				w.Header().Add("WWW-Authenticate", `Basic realm="batuta: any name, and a token as the password"`)
			}
			s.refuse(w, r, http.StatusUnauthorized, "token", err.Error())
		}
	})
}

// grantKey is the key for the grant of a request's client in its context.
type grantKey struct{}

// access returns what the client may do: operate or read.
func (s *Server) access(r *http.Request) string {
	if g, ok := r.Context().Value(grantKey{}).(access.Grant); s.readOnly || ok && g.Role < access.Operate {
		return "read"
	}
	return "operate"
}

// permit returns the client of a request unless it may not be a candidate in that election: then it answers.
func (s *Server) permit(w http.ResponseWriter, r *http.Request, election string) (c candidacy.Client, ok bool) {
	g, _ := r.Context().Value(grantKey{}).(access.Grant)
	if !g.May(election) {
		s.refuse(w, r, http.StatusForbidden, "role", fmt.Sprintf("this client may stand for %s, and not for %q: add the name to its line in the agent's --http-token-file",
			strings.Join(g.Names, ", "), election))
	}
	return candidacy.Client{Name: g.Client(), Limit: g.Limit, Weighs: g.Role == access.Stand}, g.May(election)
}

// isPage reports whether the request is for the dashboard's own files. They contain nothing of the
// cluster, and ask for a token themselves, which no browser stores then.
func isPage(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/ui/") || r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// bare omits the body of an answer.
type bare struct{ http.ResponseWriter }

// Write implements [http.ResponseWriter].
func (w bare) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements [http.ResponseWriter].
func (w bare) WriteHeader(code int) {
	w.Header().Set("Content-Length", "0")
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets an answer be sent before its handler returns.
func (w bare) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// refuse counts a refused request, and logs it as [refusal.Log] allows.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, code int, reason, words string) {
	s.refused.Inc(reason)
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	s.refusals.Warn(s.log, host, reason, "HTTP request refused", "from", r.RemoteAddr, "method", r.Method, "path", r.URL.EscapedPath(), "reason", reason)
	reply.Fail(w, code, "%s", words)
}

// hosts are the accepted host names, besides localhost and any IP address. A page with a name that
// resolves to 127.0.0.1 would have the same origin as the API, and could read and change
// everything; the Host header reveals its name.
type hosts map[string]bool

func newHosts(names []string) hosts {
	h := hosts{"localhost": true}
	for _, name := range names {
		h[plainHost(name)] = true
	}
	return h
}

// ownHost refuses requests for foreign host names.
func (s *Server) ownHost(h hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.allow(r.Host) {
			s.refuse(w, r, http.StatusMisdirectedRequest, "host", fmt.Sprintf("host %q is not this agent's: ask by IP address or localhost, or start the agent with --http-host NAME", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allow reports whether a Host header is accepted; HTTP/1.0 has none, and every browser sends it.
func (h hosts) allow(host string) bool {
	name := plainHost(host)
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		return true // an IP address cannot be a foreign name
	}
	return host == "" || h[name]
}

// plainHost normalizes a host, and removes its port.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
