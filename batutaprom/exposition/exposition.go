// Package exposition shows the metrics of batuta's own programs to Prometheus. No other program can call it: what it
// takes has types of internal packages. A service registers what batutaprom.New gives.
package exposition

import (
	"iter"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/batuta-dev/batuta/internal/api/metric"
)

// Handler answers with the metrics of sources, and those of the process. Its registry is its own, so that a process
// may have several nodes. Each source is read by itself: one that waits does not delay the others.
func Handler(sources ...metric.Source) http.Handler {
	registry := prometheus.NewRegistry()
	for _, s := range sources {
		registry.MustRegister(Collector(s))
	}
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Collector has the metrics of sources, which it reads for each scrape, one after the other.
func Collector(sources ...metric.Source) prometheus.Collector { return collector(sources) }

type collector []metric.Source

// Describe implements [prometheus.Collector].
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for d := range c.families() {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for d, f := range c.families() {
		if f.Err != nil { // the scrape fails with this reason
			ch <- prometheus.NewInvalidMetric(d, f.Err)
		}
		for _, s := range f.Samples {
			switch f.Kind {
			case metric.Histogram:
				ch <- prometheus.MustNewConstHistogram(d, s.Count, s.Value, s.UpTo, s.Labels...)
			case metric.Counter:
				ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, s.Value, s.Labels...)
			default:
				ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, s.Value, s.Labels...)
			}
		}
	}
}

func (c collector) families() iter.Seq2[*prometheus.Desc, *metric.Family] {
	return func(yield func(*prometheus.Desc, *metric.Family) bool) {
		for _, source := range c {
			for _, f := range source() {
				if !yield(prometheus.NewDesc(f.Name, f.Help, f.Labels, nil), f) {
					return
				}
			}
		}
	}
}
