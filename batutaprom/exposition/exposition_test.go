package exposition

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta/internal/api/metric"
)

// kinds has a family of each kind, and one without samples, or the reason why there are none.
func kinds(fault error) metric.Source {
	return func() []*metric.Family {
		var l metric.List
		gauge := l.Gauge("batuta_g", "It goes up and down.", "b", "a")
		gauge.Err = fault
		l.Counter("batuta_c_total", "It goes up.").Add(1.5)
		l.Gauge("batuta_none", "It has no samples.", "a")
		h := metric.Sample{UpTo: map[float64]uint64{.1: 0, 2: 0}}
		h.Observe(.1)
		h.Observe(7)
		l = append(l, &metric.Family{Name: "batuta_h", Help: "Sizes.", Kind: metric.Histogram, Samples: []metric.Sample{h}})
		if fault == nil {
			gauge.Add(-2, "x", "z")
			gauge.Add(7.5e6, "x", "\"")
		}
		return l
	}
}

func TestTextOfEachKind(t *testing.T) {
	counts := metric.NewCounts("batuta_refused_total", "Refused.", "reason", "zero", "one")
	counts.Inc("one")
	w := httptest.NewRecorder()
	Handler(kinds(nil), counts.Families).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	const want = `# HELP batuta_c_total It goes up.
# TYPE batuta_c_total counter
batuta_c_total 1.5
# HELP batuta_g It goes up and down.
# TYPE batuta_g gauge
batuta_g{a="\"",b="x"} 7.5e+06
batuta_g{a="z",b="x"} -2
# HELP batuta_h Sizes.
# TYPE batuta_h histogram
batuta_h_bucket{le="0.1"} 1
batuta_h_bucket{le="2"} 1
batuta_h_bucket{le="+Inf"} 2
batuta_h_sum 7.1
batuta_h_count 2
# HELP batuta_refused_total Refused.
# TYPE batuta_refused_total counter
batuta_refused_total{reason="one"} 1
batuta_refused_total{reason="zero"} 0
`
	if text := w.Body.String(); w.Code != 200 || !strings.HasPrefix(text, want) {
		t.Errorf("%d\n%s", w.Code, text)
	}
}

// A scrape of a member that does not answer fails with the reason. It shows no zeros.
func TestAReasonFailsTheScrape(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(kinds(errors.New("it is stuck"))).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if text := w.Body.String(); w.Code != 500 || !strings.Contains(text, "batuta_g") || !strings.Contains(text, "it is stuck") {
		t.Errorf("%d %s", w.Code, text)
	}
}

// Two nodes need a label each, also for a family that has no samples yet.
func TestARegistryRefusesTheSameMetricsTwice(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	labelled := func(node string) prometheus.Registerer {
		return prometheus.WrapRegistererWith(prometheus.Labels{"node": node}, registry)
	}
	labelled("1").MustRegister(Collector(kinds(nil)))
	if _, err := registry.Gather(); err != nil {
		t.Error(err)
	}
	none := func() []*metric.Family {
		var l metric.List
		l.Gauge("batuta_none", "It has no samples.", "a")
		return l
	}
	for _, source := range []metric.Source{kinds(nil), none} {
		if err := labelled("1").Register(Collector(source)); err == nil {
			t.Error("the same metrics are registered again")
		}
	}
	if err := labelled("2").Register(Collector(kinds(nil))); err != nil {
		t.Error(err)
	}
}
