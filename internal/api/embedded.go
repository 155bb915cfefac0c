package api

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta/internal/web"
)

// This file provides parts of an agent to services with a server, and a registry of metrics, of
// their own.

// Embedded returns the API of node for a service's own server, without metrics, which belong to the
// service's registry. Without changes it is read-only. It refuses pages of foreign origins; the
// server decides which clients and host names to accept.
func Embedded(node Node, version string, changes bool) http.Handler {
	s := &Server{node: node, version: version, log: slog.New(slog.DiscardHandler), streams: make(chan struct{}, maxStreams), turns: newTurns(), refused: newRefusals()}
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
