package api

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/internal/api/metric"
	"github.com/batuta-dev/batuta/internal/follow"
)

const metricsPath = "/metrics"

// Metrics are batuta's own of an agent.
func (s *Server) Metrics() []metric.Source {
	c := newCollector(s.node, s.version, s.leaderlessTime)
	c.ofHTTP = func() batuta.CertificateLife { return s.life() }
	return []metric.Source{c.families, s.leaderlessTime.families, s.refused.Families, s.candidacies.Families, s.jobs.Families}
}

// collector reads a node's status for each scrape, and keeps nothing.
type collector struct {
	node           Node
	version        string
	leaderlessTime *leaderlessTime
	ofHTTP         func() batuta.CertificateLife
}

func newCollector(n Node, version string, d *leaderlessTime) *collector {
	return &collector{node: n, version: version, leaderlessTime: d, ofHTTP: func() batuta.CertificateLife { return batuta.CertificateLife{} }}
}

// families is the [metric.Source] of a member.
func (c *collector) families() []*metric.Family {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	s, err := c.node.Status(ctx)
	var l metric.List
	l.Gauge("batuta_info", "Identity of this member; always 1.", "id", "cluster", "election", "algorithm", "guarantee", "version").
		Add(1, string(s.ID), s.Cluster, s.Election, s.Algorithm, s.Guarantee, c.version)
	c.addState(&l, s)
	c.addMembers(&l, s)
	c.addCertificates(&l, s)
	c.addCounters(&l, s)
	c.addElections(ctx, &l, err == nil)
	if err != nil {
		for _, f := range l {
			f.Samples = nil
		}
		l[0].Err = fmt.Errorf("member %s is stuck: it has not answered within %v", c.node.ID(), askTime)
	}
	return l
}

func (c *collector) addState(l *metric.List, s batuta.Status) {
	l.Gauge("batuta_is_leader", "1 while this member leads, else 0.").Add(metric.OneIf(c.node.IsLeader()))
	l.Gauge("batuta_has_leader", "1 while this member knows a leader, else 0.").Add(metric.OneIf(s.Token.Defined()))
	l.Gauge("batuta_epoch", "Epoch of the leadership this member follows or holds, or the highest it knows.").Add(float64(s.Epoch))
	l.Gauge("batuta_paused", "1 while the cluster is paused, as this member knows, else 0: no other member takes over.").Add(metric.OneIf(!s.Paused.IsZero()))
	l.Gauge("batuta_uptime_seconds", "Seconds since this member started.").Add(s.Uptime.Seconds())
	l.Gauge("batuta_links", "Open connections to other members.").Add(float64(s.Links))
	l.Gauge("batuta_disk_failing", "1 while this member cannot save its state, else 0.").Add(metric.OneIf(s.DiskError != ""))
	l.Gauge("batuta_standing_since_seconds", "Unix time since when this member has its eligibility: eligible, unhealthy and so on.").
		Add(float64(s.StandingSince.UnixMilli()) / 1000)
	eligibility := l.Gauge("batuta_standing", "1 for the eligibility of this member, else 0: eligible, or why it is no candidate.", "standing")
	for _, standing := range standings {
		eligibility.Add(metric.OneIf(s.Standing == standing), string(standing))
	}
	l.Gauge("batuta_longest_silence_seconds", "Longest silence of the leader this member follows, or of a follower of its own, in the last 10 minutes.").
		Add(s.Rhythm.Silence.Seconds())
	l.Gauge("batuta_longest_stall_seconds", "Longest that this member ran late by itself in the last 10 minutes.").Add(s.Rhythm.Stall.Seconds())
	l.Gauge("batuta_longest_round_trip_seconds", "Longest time from a heartbeat of this member to its acknowledgement in the last 10 minutes.").
		Add(s.Rhythm.RoundTrip.Seconds())
	l.Gauge("batuta_suspicion_seconds", "T, the silence that makes a suspect: 2 t_max + t_process.").Add(s.Timing.T().Seconds())
}

func (c *collector) addMembers(l *metric.List, s batuta.Status) {
	refused := l.Gauge("batuta_member_refused", "1 while this member and that one refuse each other, by the reason; its status has both values.", "member", "reason")
	for _, m := range s.Members {
		if reason, _, is := strings.Cut(m.Refusal, ":"); is {
			refused.Add(1, string(m.ID), reason)
		}
	}
	members := l.Gauge("batuta_members", "Members by state, as the leader reports it.", "state")
	for state, n := range membersByState(s) {
		members.Add(float64(n), state)
	}
}

func (c *collector) addCertificates(l *metric.List, s batuta.Status) {
	left := l.Gauge("batuta_certificate_seconds",
		"Seconds until a certificate in a file ends: member, that of the authority it is believed by (authority), or the HTTP API's (http).", "of")
	whole := l.Gauge("batuta_certificate_life_seconds", "Seconds from the beginning of that certificate to its end.", "of")
	for of, life := range map[string]batuta.CertificateLife{"member": s.Certificate, "authority": s.Authority, "http": c.ofHTTP()} {
		if !life.To.IsZero() {
			left.Add(time.Until(life.To).Seconds(), of)
			whole.Add(life.To.Sub(life.From).Seconds(), of)
		}
	}
}

// addElections counts the named elections: a series for each would be too many.
func (c *collector) addElections(ctx context.Context, l *metric.List, answers bool) {
	known := l.Gauge("batuta_elections", "Seats of named elections that this member knows of.")
	led := l.Gauge("batuta_elections_led", "Seats of named elections that this member leads.")
	unled := l.Gauge("batuta_elections_leaderless", "Seats of named elections without a leader, as this member sees it.")
	drains := l.Gauge("batuta_members_drained", "Members that lead no named election because they are drained.")
	e, ok := c.node.(Elections)
	if !ok || !answers {
		return
	}
	views := e.ListElections()
	leads, lacks := 0, 0
	for _, v := range views {
		switch {
		case !v.Defined():
			lacks++
		case v.Token.Leader.ID == c.node.ID():
			leads++
		}
	}
	known.Add(float64(len(views)))
	led.Add(float64(leads))
	unled.Add(float64(lacks))
	if drained, err := e.Drained(ctx); err == nil {
		drains.Add(float64(len(drained)))
	}
}

func (c *collector) addCounters(l *metric.List, s batuta.Status) {
	l.Counter("batuta_leaderless_seconds_total", "Seconds in which this member knew no leader.").Add(c.leaderlessTime.total(time.Now()).Seconds())
	l.Counter("batuta_log_records_dropped_total", "Log records dropped because the log was not read fast enough.").Add(float64(s.LogDropped))
	l.Counter("batuta_saves_failed_total", "Attempts to save the state that failed.").Add(float64(s.SavesFailed))
	l.Counter("batuta_sent_bytes_total", "Bytes written to other members, on batuta's own wire.").Add(float64(s.SentSize))
	messages := l.Counter("batuta_messages_total", "Election messages by kind and direction (sent, received).", "kind", "direction")
	for kind, n := range s.Sent {
		messages.Add(float64(n), kind, "sent")
	}
	for kind, n := range s.Received {
		messages.Add(float64(n), kind, "received")
	}
	lost := l.Counter("batuta_leader_changes_total", "Leaderships of which this member has seen the end, by cause.", "cause")
	for _, cause := range causes {
		lost.Add(float64(s.Lost[cause]), string(cause))
	}
	refused := l.Counter("batuta_handshakes_refused_total", "Connections refused at their handshake, by this member or another, by reason.", "reason")
	for reason, n := range s.Refused {
		refused.Add(float64(n), reason)
	}
	bad := l.Counter("batuta_frames_dropped_total", "Frames refused and dropped, by reason.", "reason")
	for reason, n := range s.Bad {
		bad.Add(float64(n), reason)
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

// leaderlessTime measures the time in which a member knows no leader.
type leaderlessTime struct {
	mu       sync.Mutex
	failover metric.Sample // a histogram, in seconds, from the last sign of a leadership to the beginning of the next
	since    time.Time     // of the present leaderless time; zero: a leader is known
	sign     time.Time     // the last of the leadership before; zero: there was none
	past     time.Duration
}

func newLeaderlessTime(began time.Time) *leaderlessTime {
	d := &leaderlessTime{since: began, failover: metric.Sample{UpTo: map[float64]uint64{}}}
	for _, bound := range []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30} {
		d.failover.UpTo[bound] = 0
	}
	return d
}

// families is the [metric.Source] of the failovers.
func (d *leaderlessTime) families() []*metric.Family {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.failover
	now.UpTo = maps.Clone(now.UpTo)
	return []*metric.Family{{Name: "batuta_failover_seconds", Help: "Time from the last sign of a leadership to the beginning of the next, as this member sees it.",
		Kind: metric.Histogram, Samples: []metric.Sample{now}}}
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
