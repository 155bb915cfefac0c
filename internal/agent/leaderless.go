package agent

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
	failover prometheus.Histogram // from a leadership's end to the next one's beginning

	mu    sync.Mutex
	since time.Time // of the one that lasts; zero: a leader is known
	lost  bool      // a leadership came before it
	past  time.Duration
}

func newLeaderlessTime(began time.Time) *leaderlessTime {
	return &leaderlessTime{since: began, failover: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "batuta_failover_seconds",
		Help:    "Time from the end of a leadership to the next, as this member sees it.",
		Buckets: []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30},
	})}
}

// follow takes in what node sees, until it or ctx ends.
func (d *leaderlessTime) follow(ctx context.Context, node Node) {
	for ev := range follow.On(ctx, batuta.ErrBehind, node.Events) {
		switch ev.Kind {
		case batuta.EventLost:
			d.begin(ev.Time)
		case batuta.EventLeader:
			d.end(ev.Time)
		}
	}
}

func (d *leaderlessTime) begin(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lost = true
	if d.since.IsZero() {
		d.since = at
	}
}

func (d *leaderlessTime) end(at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		return
	}
	took := max(0, at.Sub(d.since))
	d.past += took
	if d.lost {
		d.failover.Observe(took.Seconds())
	}
	d.since = time.Time{}
}

// total is how long this member has known no leader, all told.
func (d *leaderlessTime) total(now time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() {
		return d.past
	}
	return d.past + max(0, now.Sub(d.since))
}
