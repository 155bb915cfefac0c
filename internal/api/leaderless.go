package api

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/follow"
)

// leaderlessTime measures the time in which a member knows no leader.
type leaderlessTime struct {
	failover prometheus.Histogram // from the last sign of a leadership to the beginning of the next

	mu    sync.Mutex
	since time.Time // of the present leaderless time; zero: a leader is known
	sign  time.Time // the last of the leadership before; zero: there was none
	past  time.Duration
}

func newLeaderlessTime(began time.Time) *leaderlessTime {
	return &leaderlessTime{since: began, failover: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "batuta_failover_seconds",
		Help:    "Time from the last sign of a leadership to the beginning of the next, as this member sees it.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
	})}
}

// follow handles the events of node, until it or ctx ends.
func (d *leaderlessTime) follow(ctx context.Context, node Node) {
	for ev := range follow.On(ctx, batuta.ErrBehind, node.Events) {
		switch ev.Kind {
		case batuta.EventLost:
			d.begin(ev.Time, ev.View.LastSeen)
		case batuta.EventLeader:
			d.end(ev.Time)
		}
	}
}

// begin records a loss, and the last sign of the leadership; zero: the loss itself.
func (d *leaderlessTime) begin(at, sign time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sign.IsZero() {
		sign = at
	}
	if d.since.IsZero() {
		d.since, d.sign = at, sign
	}
}

func (d *leaderlessTime) end(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		return
	}
	d.past += max(0, at.Sub(d.since))
	if !d.sign.IsZero() {
		d.failover.Observe(max(0, at.Sub(d.sign)).Seconds())
	}
	d.since = time.Time{}
}

// total returns how long this member has known no leader, in total.
func (d *leaderlessTime) total(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		return d.past
	}
	return d.past + max(0, now.Sub(d.since))
}
