// Package batutahttp is the HTTP API of an agent for a service that has a server of its
// own: /leader for load balancers, /healthz and /readyz, and /v1 as docs/monitoring.md
// has it; the calls of /v1 that change something are [Operate]'s alone.
//
//	mux.Handle("/batuta/", http.StripPrefix("/batuta", batutahttp.Handler(node)))
//
// [LeaderOnly] serves a handler of the service's own on the leader, and sends requests there from elsewhere.
//
// Every client that is let through may ask. Requests from pages of other origins are refused. To
// authenticate clients, and to check the name that the server is asked by, is the server's part.
package batutahttp

import (
	"net/http"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api"
)

// Handler only reads: the leader, the members, the events. It changes nothing. It
// panics if node is nil, as [Operate] does.
func Handler(node *batuta.Node) http.Handler { return embedded(node, false) }

// Operate is [Handler] with the calls that change something: resign, campaign, transfer,
// and members that are added or removed. Let only clients through that may do that.
func Operate(node *batuta.Node) http.Handler { return embedded(node, true) }

func embedded(node *batuta.Node, changes bool) http.Handler {
	if node == nil {
		panic("batutahttp: nil node: give what batuta.Start has returned")
	}
	return api.Embedded(node, "", changes)
}
