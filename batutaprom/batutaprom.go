// Package batutaprom gives the metrics of an agent to a service that has a Prometheus
// registry of its own; docs/monitoring.md explains each.
//
//	registry.MustRegister(batutaprom.New(node))
//
// A process with several nodes registers each under a label of its own, here "node". The name must
// not be that of a label which the metrics have, such as "cluster" or "election":
//
//	prometheus.WrapRegistererWith(prometheus.Labels{"node": "billing"}, registry).MustRegister(batutaprom.New(billing))
//
// The alerts in packaging/prometheus take any such label.
//
// For OpenTelemetry, bridge that registry
// (go.opentelemetry.io/contrib/bridges/prometheus, NewMetricProducer with WithGatherer):
// the metrics are the same.
package batutaprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/batutaprom/exposition"
	"github.com/batuta-dev/batuta/internal/api"
)

// New makes a collector of node's metrics. It follows node until that ends: make one
// for each node. It panics if node is nil.
func New(node *batuta.Node) prometheus.Collector {
	if node == nil {
		panic("batutaprom: nil node: give what batuta.Start has returned")
	}
	return exposition.Collector(api.Metrics(node, "")...)
}
