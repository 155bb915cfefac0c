// Package otel has OpenTelemetry show leaderships: a span for each, and metrics of an election.
//
//	go batutaotel.Metrics(ctx, node, otel.GetMeterProvider())
//	err := node.Lead(ctx, batutaotel.Work(otel.GetTracerProvider(), work))
//
// It takes every [batuta.Elector]: a node, a named election, and an election on an engine.
package otel

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/batuta-dev/batuta"
)

const scope = "github.com/batuta-dev/batuta/adapters/otel"

// Attributes of spans and metrics.
const (
	electionKey = attribute.Key("batuta.election")
	leaderKey   = attribute.Key("batuta.leader")
	epochKey    = attribute.Key("batuta.epoch")
	causeKey    = attribute.Key("batuta.cause")
)

// Work is fn within a span "batuta.leadership" of its own: what fn starts with its context is a child of that span.
// The span begins when fn is called, and ends when fn has returned. It has the election, the leader and the epoch; if the
// leadership was lost before, an event "batuta.lost" with the cause; and the error of fn, unless it is that of the context.
func Work(p trace.TracerProvider, fn func(context.Context, batuta.Leadership) error) func(context.Context, batuta.Leadership) error {
	tracer := p.Tracer(scope)
	return func(ctx context.Context, l batuta.Leadership) error {
		ctx, span := tracer.Start(ctx, "batuta.leadership", trace.WithNewRoot(), trace.WithAttributes(
			electionKey.String(l.Election), leaderKey.String(string(l.Token.Leader.ID)), epochKey.Int64(int64(l.Token.Epoch))))
		defer span.End()
		mark := sync.OnceFunc(func() {
			var lost *batuta.LostError
			if errors.As(context.Cause(ctx), &lost) {
				span.AddEvent("batuta.lost", trace.WithAttributes(causeKey.String(string(lost.Cause))))
			}
		})
		stop := context.AfterFunc(ctx, mark) // at the time of the loss: the work may take long to end
		err := fn(ctx, l)
		stop()
		mark() // work that returned at once may be ahead of it
		if err != nil && !errors.Is(err, ctx.Err()) {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		return err
	}
}

// Metrics measures the election as this candidate sees it, by instruments of p, with the election's name as an attribute:
//
//   - batuta.is_leader: 1 while this candidate leads, else 0;
//   - batuta.has_leader: 1 while it knows a leader, else 0;
//   - batuta.epoch: that of the leadership it follows or holds, else of the last leadership;
//   - batuta.leader_changes: leaderships that it has seen end, by cause;
//   - batuta.failover: seconds from the last sign of a leadership to the beginning of the next.
//
// It returns when ctx ends, with ctx's error, or when e has ended, with [batuta.ErrClosed]; the first three are measured no more then.
// Call it once for each election.
func Metrics(ctx context.Context, e batuta.Elector, p metric.MeterProvider) error {
	m := p.Meter(scope)
	isLeader, err1 := m.Int64ObservableGauge("batuta.is_leader", metric.WithDescription("1 while this candidate leads, else 0."))
	hasLeader, err2 := m.Int64ObservableGauge("batuta.has_leader", metric.WithDescription("1 while this candidate knows a leader, else 0."))
	epoch, err3 := m.Int64ObservableGauge("batuta.epoch", metric.WithDescription("Epoch of the leadership that this candidate follows or holds, else of the last one."))
	changes, err4 := m.Int64Counter("batuta.leader_changes", metric.WithUnit("{leadership}"), metric.WithDescription("Leaderships whose end this candidate has seen, by cause."))
	failover, err5 := m.Float64Histogram("batuta.failover", metric.WithUnit("s"),
		metric.WithDescription("Time from the last sign of a leadership to the beginning of the next, as this candidate sees it."),
		metric.WithExplicitBucketBoundaries(.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30))
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return err
	}
	registered, err := m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		v := e.Leader()
		name := metric.WithAttributes(electionKey.String(v.Election))
		o.ObserveInt64(isLeader, oneIf(e.IsLeader()), name)
		o.ObserveInt64(hasLeader, oneIf(v.Defined()), name)
		o.ObserveInt64(epoch, int64(max(v.Token.Epoch, v.Lost.Epoch)), name)
		return nil
	}, isLeader, hasLeader, epoch)
	if err != nil {
		return err
	}
	defer registered.Unregister()
	lost := map[int]batuta.View{} // by seat
	for behind := true; behind; {
		behind = false
		for v, err := range e.Watch(ctx) {
			if behind = errors.Is(err, batuta.ErrBehind); behind {
				clear(lost) // what came between is not known
				break
			}
			if err != nil {
				return err
			}
			name := electionKey.String(v.Election)
			before, was := lost[v.Seat]
			switch {
			case v.Defined() && was:
				failover.Record(ctx, max(0, v.Since.Sub(before.LastSeen)).Seconds(), metric.WithAttributes(name))
				delete(lost, v.Seat)
			case !v.Defined() && v.Lost.Defined():
				changes.Add(ctx, 1, metric.WithAttributes(name, causeKey.String(string(v.Cause))))
				if v.LastSeen.IsZero() {
					v.LastSeen = v.Since
				}
				lost[v.Seat] = v
			}
		}
	}
	return cmp.Or(ctx.Err(), batuta.ErrClosed)
}

func oneIf(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
