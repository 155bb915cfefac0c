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

// This file gives the parts of an agent to services that have a server, and a registry
// of metrics, of their own.

// Embedded is the API of node for another's server, without metrics, which have a registry
// there. Unless it changes, it only tells. It
// refuses pages of other origins; who may ask, and under what names, is the server's.
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

// NewCollector gives the figures of node to another's registry, until node ends.
func NewCollector(node Node, version string) prometheus.Collector {
	d := newLeaderlessTime(time.Now())
	go d.follow(context.Background(), node)
	return embeddedCollector{newCollector(node, version, d), d.failover}
}

// embeddedCollector is all collectors of one node.
type embeddedCollector []prometheus.Collector

// Describe implements [prometheus.Collector].
func (all embeddedCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range all {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (all embeddedCollector) Collect(ch chan<- prometheus.Metric) {
	for _, c := range all {
		c.Collect(ch)
	}
}
