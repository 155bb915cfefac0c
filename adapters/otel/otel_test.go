package otel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/batuta-dev/batuta"
	adapter "github.com/batuta-dev/batuta/adapters/otel"
	"github.com/batuta-dev/batuta/batutatest"
)

func value(attributes []attribute.KeyValue, key attribute.Key) string {
	for _, a := range attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// Each leadership has a span, what the work starts is its child, and the span has why the leadership ended.
func TestASpanALeadership(t *testing.T) {
	e, exporter := batutatest.NewElector(t), tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	tracer := provider.Tracer("service")
	begun, failed := make(chan struct{}), errors.New("the table is locked")
	result := make(chan error, 1)
	go func() {
		result <- e.Lead(t.Context(), adapter.Work(provider, func(ctx context.Context, l batuta.Leadership) error {
			_, child := tracer.Start(ctx, "vacuum")
			child.End()
			begun <- struct{}{}
			if l.Token.Epoch > 1 {
				return failed
			}
			<-ctx.Done()
			return ctx.Err()
		}))
	}()
	first := e.Elect()
	<-begun
	e.Lose(batuta.CauseSilent)
	e.Elect()
	<-begun
	if err := <-result; !errors.Is(err, failed) {
		t.Errorf("Lead: %v", err)
	}
	spans := exporter.GetSpans()
	if len(spans) != 4 {
		t.Fatalf("%d spans: want a child and a leadership, twice", len(spans))
	}
	child, lost, last := spans[0], spans[1], spans[3]
	if lost.Name != "batuta.leadership" || child.Parent.SpanID() != lost.SpanContext.SpanID() {
		t.Errorf("%q is no child of %q", child.Name, lost.Name)
	}
	if got := value(lost.Attributes, "batuta.epoch"); got != "1" || first.Epoch != 1 {
		t.Errorf("epoch %s of %v", got, first)
	}
	if len(lost.Events) != 1 || value(lost.Events[0].Attributes, "batuta.cause") != "silent" || lost.Status.Code == codes.Error {
		t.Errorf("a leadership that was lost: events %v, status %v", lost.Events, lost.Status)
	}
	if last.Status.Code != codes.Error || last.Status.Description != failed.Error() {
		t.Errorf("work that failed: status %v", last.Status)
	}
	if last.SpanContext.TraceID() == lost.SpanContext.TraceID() {
		t.Error("two leaderships have one trace")
	}
}

// The instruments follow the election.
func TestMetrics(t *testing.T) {
	e, reader := batutatest.NewElector(t), sdkmetric.NewManualReader()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	go func() { ended <- adapter.Metrics(ctx, e, provider) }()

	await(t, reader, "batuta.has_leader", "", 0)
	e.Elect()
	await(t, reader, "batuta.is_leader", "", 1)
	await(t, reader, "batuta.has_leader", "", 1)
	e.Lose(batuta.CauseCrashed)
	await(t, reader, "batuta.leader_changes", "crashed", 1)
	await(t, reader, "batuta.is_leader", "", 0)
	await(t, reader, "batuta.epoch", "", 1)
	e.Follow("2", nil)
	await(t, reader, "batuta.failover", "", 1)
	await(t, reader, "batuta.is_leader", "", 0)
	await(t, reader, "batuta.has_leader", "", 1)
	await(t, reader, "batuta.epoch", "", 2)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Metrics: %v", err)
	}
	if _, is := read(t, reader, "batuta.is_leader", ""); is {
		t.Error("the gauges outlive it")
	}
}

// read is the figure of a metric: its value, or how many it has counted.
func read(t *testing.T, r sdkmetric.Reader, name, cause string) (int64, bool) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Gauge[int64]:
				return data.DataPoints[0].Value, true
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					if v, _ := p.Attributes.Value("batuta.cause"); v.AsString() == cause {
						return p.Value, true
					}
				}
			case metricdata.Histogram[float64]:
				return int64(data.DataPoints[0].Count), true
			}
		}
	}
	return 0, false
}

func await(t *testing.T, r sdkmetric.Reader, name, cause string, want int64) {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		got, is := read(t, r, name, cause)
		if is && got == want {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("%s is %d (%t), want %d", name, got, is, want)
		}
	}
}
