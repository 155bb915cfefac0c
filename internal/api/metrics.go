package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/follow"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const metricsPath = "/metrics"

// metricsHandler serves the node's metrics to Prometheus. It has its own registry, so that a
// process may have several nodes.
func (s *Server) metricsHandler() http.HandlerFunc {
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.collectors()...)
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}).ServeHTTP
}

// collectors are those of batuta's own metrics.
func (s *Server) collectors() []prometheus.Collector {
	c := newCollector(s.node, s.version, s.leaderlessTime)
	c.ofHTTP = func() batuta.CertificateLife { return s.life() }
	return []prometheus.Collector{c, s.leaderlessTime.failover, s.refused, s.candidacies, &s.jobs}
}

// collector reads a node's status for each scrape, and keeps nothing.
type collector struct {
	node           Node
	version        string
	leaderlessTime *leaderlessTime
	ofHTTP         func() batuta.CertificateLife
	all            []*prometheus.Desc // the ones below

	info, isLeader, hasLeader, epoch, uptime, members, links                                                  *prometheus.Desc
	messages, sentBytes, lost, refused, bad, leaderless, unlogged                                             *prometheus.Desc
	silenceLimit, silence, stall, roundTrip, refusedMember, standing, standingSince, diskFailing, savesFailed *prometheus.Desc
	certificate, certificateLife                                                                              *prometheus.Desc
	elections, electionsLed, electionsUnled, drained, paused                                                  *prometheus.Desc
}

func newCollector(n Node, version string, d *leaderlessTime) *collector {
	var all []*prometheus.Desc
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		all = append(all, prometheus.NewDesc("batuta_"+name, help, labels, nil))
		return all[len(all)-1]
	}
	c := &collector{
		node: n, version: version, leaderlessTime: d,
		ofHTTP:          func() batuta.CertificateLife { return batuta.CertificateLife{} },
		info:            desc("info", "Identity of this member; always 1.", "id", "cluster", "election", "algorithm", "guarantee", "version"),
		isLeader:        desc("is_leader", "1 while this member leads, else 0."),
		hasLeader:       desc("has_leader", "1 while this member knows a leader, else 0."),
		epoch:           desc("epoch", "Epoch of the leadership this member follows or holds, or the highest it knows."),
		uptime:          desc("uptime_seconds", "Seconds since this member started."),
		members:         desc("members", "Members by state, as the leader reports it.", "state"),
		links:           desc("links", "Open connections to other members."),
		messages:        desc("messages_total", "Election messages by kind and direction (sent, received).", "kind", "direction"),
		sentBytes:       desc("sent_bytes_total", "Bytes written to other members, on batuta's own wire."),
		lost:            desc("leader_changes_total", "Leaderships of which this member has seen the end, by cause.", "cause"),
		leaderless:      desc("leaderless_seconds_total", "Seconds in which this member knew no leader."),
		refused:         desc("handshakes_refused_total", "Connections refused at their handshake, by this member or another, by reason.", "reason"),
		refusedMember:   desc("member_refused", "1 while this member and that one refuse each other, by the reason; its status has both values.", "member", "reason"),
		silence:         desc("longest_silence_seconds", "Longest silence of the leader this member follows, or of a follower of its own, in the last 10 minutes."),
		stall:           desc("longest_stall_seconds", "Longest that this member ran late by itself in the last 10 minutes."),
		roundTrip:       desc("longest_round_trip_seconds", "Longest time from a heartbeat of this member to its acknowledgement in the last 10 minutes."),
		silenceLimit:    desc("suspicion_seconds", "T, the silence that makes a suspect: 2 t_max + t_process."),
		unlogged:        desc("log_records_dropped_total", "Log records dropped because the log was not read fast enough."),
		standing:        desc("standing", "1 for the eligibility of this member, else 0: eligible, or why it is no candidate.", "standing"),
		standingSince:   desc("standing_since_seconds", "Unix time since when this member has its eligibility: eligible, unhealthy and so on."),
		diskFailing:     desc("disk_failing", "1 while this member cannot save its state, else 0."),
		savesFailed:     desc("saves_failed_total", "Attempts to save the state that failed."),
		certificate:     desc("certificate_seconds", "Seconds until a certificate in a file ends: member, that of the authority it is believed by (authority), or the HTTP API's (http).", "of"),
		certificateLife: desc("certificate_life_seconds", "Seconds from the beginning of that certificate to its end.", "of"),
		elections:       desc("elections", "Seats of named elections that this member knows of."),
		electionsLed:    desc("elections_led", "Seats of named elections that this member leads."),
		electionsUnled:  desc("elections_leaderless", "Seats of named elections without a leader, as this member sees it."),
		drained:         desc("members_drained", "Members that lead no named election because they are drained."),
		paused:          desc("paused", "1 while the cluster is paused, as this member knows, else 0: no other member takes over."),
		bad:             desc("frames_dropped_total", "Frames refused and dropped, by reason.", "reason"),
	}
	c.all = all
	return c
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.all {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	s, err := c.node.Status(ctx)
	if err != nil { // the scrape fails with this reason
		ch <- prometheus.NewInvalidMetric(c.info, fmt.Errorf("member %s is stuck: it has not answered within %v", c.node.ID(), askTime))
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.info, 1, string(s.ID), s.Cluster, s.Election, s.Algorithm, s.Guarantee, c.version)
	gauge(c.isLeader, oneIf(c.node.IsLeader()))
	gauge(c.hasLeader, oneIf(s.Token.Defined()))
	gauge(c.epoch, float64(s.Epoch))
	gauge(c.paused, oneIf(!s.Paused.IsZero()))
	gauge(c.uptime, s.Uptime.Seconds())
	gauge(c.links, float64(s.Links))
	gauge(c.diskFailing, oneIf(s.DiskError != ""))
	gauge(c.standingSince, float64(s.StandingSince.UnixMilli())/1000)
	for _, standing := range standings {
		gauge(c.standing, oneIf(s.Standing == standing), string(standing))
	}
	gauge(c.silence, s.Rhythm.Silence.Seconds())
	gauge(c.stall, s.Rhythm.Stall.Seconds())
	gauge(c.roundTrip, s.Rhythm.RoundTrip.Seconds())
	gauge(c.silenceLimit, s.Timing.T().Seconds())
	for of, life := range map[string]batuta.CertificateLife{"member": s.Certificate, "authority": s.Authority, "http": c.ofHTTP()} {
		if !life.To.IsZero() {
			gauge(c.certificate, time.Until(life.To).Seconds(), of)
			gauge(c.certificateLife, life.To.Sub(life.From).Seconds(), of)
		}
	}
	for _, m := range s.Members {
		if reason, _, refused := strings.Cut(m.Refusal, ":"); refused {
			gauge(c.refusedMember, 1, string(m.ID), reason)
		}
	}
	for state, n := range membersByState(s) {
		gauge(c.members, float64(n), state)
	}
	ch <- prometheus.MustNewConstMetric(c.leaderless, prometheus.CounterValue, c.leaderlessTime.total(time.Now()).Seconds())
	c.collectElections(ctx, gauge)
	c.collectCounters(ch, s)
}

// collectElections counts the named elections: a series for each would be too many.
func (c *collector) collectElections(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) {
	e, ok := c.node.(Elections)
	if !ok {
		return
	}
	views := e.ListElections()
	led, unled := 0, 0
	for _, v := range views {
		switch {
		case !v.Defined():
			unled++
		case v.Token.Leader.ID == c.node.ID():
			led++
		}
	}
	gauge(c.elections, float64(len(views)))
	gauge(c.electionsLed, float64(led))
	gauge(c.electionsUnled, float64(unled))
	if drained, err := e.Drained(ctx); err == nil {
		gauge(c.drained, float64(len(drained)))
	}
}

func (c *collector) collectCounters(ch chan<- prometheus.Metric, s batuta.Status) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(c.unlogged, s.LogDropped)
	count(c.savesFailed, s.SavesFailed)
	count(c.sentBytes, s.SentSize)
	for kind, n := range s.Sent {
		count(c.messages, n, kind, "sent")
	}
	for kind, n := range s.Received {
		count(c.messages, n, kind, "received")
	}
	for _, cause := range causes {
		count(c.lost, s.Lost[cause], string(cause))
	}
	for reason, n := range s.Refused {
		count(c.refused, n, reason)
	}
	for reason, n := range s.Bad {
		count(c.bad, n, reason)
	}
}

// standings are all reported, so that a rule may compare with zero.
var standings = []batuta.Standing{batuta.StandingEligible, batuta.StandingUnhealthy, batuta.StandingResigned, batuta.StandingObserver,
	batuta.StandingDraining, batuta.StandingUnsaved, batuta.StandingJoining, batuta.StandingRefused, batuta.StandingFew, batuta.StandingPaused, batuta.StandingClosing, batuta.StandingRemoved}

// causes are all reported, from zero on, so that the first increase shows.
var causes = []batuta.Cause{batuta.CauseCrashed, batuta.CauseSilent, batuta.CauseResigned, batuta.CauseRemoved, batuta.CauseStalled,
	batuta.CauseSuperseded, batuta.CauseStopped}

// membersByState counts members, with all states, so that a rule may compare with zero.
func membersByState(s batuta.Status) map[string]int {
	count := map[string]int{"added": 0, "up": 0, "unreachable": 0, "down": 0}
	for _, m := range s.Members {
		count[stateName(m.State)]++
	}
	return count
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

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
