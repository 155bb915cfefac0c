package api

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hosts are the names under which the API may be asked, beside localhost and any IP
// address. A page that has its own name resolve to 127.0.0.1 is of the same origin
// as the API then, and might read and change everything; its name gives it away.
type hosts map[string]bool

func newHosts(names []string) hosts {
	h := hosts{"localhost": true}
	for _, name := range names {
		h[plainHost(name)] = true
	}
	return h
}

// ownHost refuses requests that name another host.
func (s *Server) ownHost(h hosts, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h.allow(r.Host) {
			s.refuse(w, r, http.StatusMisdirectedRequest, "host", fmt.Sprintf("host %q is not this agent's: ask by IP address or localhost, or start the agent with --http-host NAME", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allow reports whether a Host header may stand; HTTP/1.0 has none, and no browser
// leaves it out.
func (h hosts) allow(host string) bool {
	name := plainHost(host)
	if _, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")); err == nil {
		return true // nobody's name resolves to an address that is written out
	}
	return host == "" || h[name]
}

// plainHost gives one form to the ways of writing a host, without its port.
func plainHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
