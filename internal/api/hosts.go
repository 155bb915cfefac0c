package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

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
