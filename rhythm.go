package batuta

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file measures what T is to be longer than: how long those are silent whom this
// member watches, and for how long its own loop is held up.

// Rhythm is the longest that a member has seen of late: in the last 10 minutes, or
// since it started.
type Rhythm struct {
	Silence   time.Duration // of the leader it follows, or of a follower of its own, while it did not count as down; 0: it has heard none twice
	Stall     time.Duration // for which its loop ran late
	RoundTrip time.Duration // from a beat of its own to the acknowledgement; 0: it has led nobody

	// The same of the last two seconds: who asks every second misses nothing.
	RecentSilence, RecentStall, RecentRoundTrip time.Duration
}

// Headroom is the part of T that the longest silence and stall have left, from 1 down;
// below 0 they would have made a suspect.
func (r Rhythm) Headroom(t time.Duration) float64 {
	return 1 - float64(max(r.Silence, r.Stall))/float64(t)
}

// rhythm belongs to the loop.
type rhythm struct {
	heard                     map[ID]time.Duration // when the leader, or a follower, was last heard in this leadership
	beats                     map[ID]beat          // to each follower, the last
	silence, stall, roundTrip peaks
}

// beat is one that has left, and is to be acknowledged.
type beat struct {
	stamp int64
	at    time.Duration
}

// How long figures are kept.
const (
	rhythmKept   = 10 * time.Minute
	rhythmRecent = 2 * time.Second
)

// peaks keeps the greatest of some durations for a while: short and long.
type peaks struct{ recent, kept peak }

func (p *peaks) add(now, d time.Duration) {
	p.recent.add(now, d, rhythmRecent)
	p.kept.add(now, d, rhythmKept)
}

// peak keeps the greatest duration of the last span at least, and of twice that at
// most.
type peak struct {
	turn        int64
	now, before time.Duration
}

func (p *peak) add(now, d, span time.Duration) {
	p.roll(now, span)
	p.now = max(p.now, d)
}

func (p *peak) of(now, span time.Duration) time.Duration {
	p.roll(now, span)
	return max(p.now, p.before)
}

func (p *peak) roll(now, span time.Duration) {
	switch turn := int64(now / span); {
	case turn == p.turn:
	case turn == p.turn+1:
		p.turn, p.before, p.now = turn, p.now, 0
	default:
		p.turn, p.before, p.now = turn, 0, 0
	}
}

// takesIn notes what a message tells of the rhythm.
func (r *rhythm) takesIn(now time.Duration, m *election.Message) {
	if m.Kind != election.Beat && m.Kind != election.Ack {
		return // others go now and then
	}
	if last, ok := r.heard[m.From]; ok {
		r.silence.add(now, now-last)
	}
	if r.heard == nil {
		r.heard = map[ID]time.Duration{}
	}
	r.heard[m.From] = now
	if b, ok := r.beats[m.From]; ok && m.Kind == election.Ack && m.Stamp == b.stamp {
		r.roundTrip.add(now, now-b.at)
	}
}

// sends notes a beat that leaves.
func (r *rhythm) sends(now time.Duration, to ID, m *election.Message) {
	if m.Kind == election.Beat {
		if r.beats == nil {
			r.beats = map[ID]beat{}
		}
		r.beats[to] = beat{m.Stamp, now}
	}
}

// forgets has nothing count any more that lasts from before: another leads, or a
// member is gone.
func (r *rhythm) forgets(ids ...ID) {
	for _, id := range ids {
		delete(r.heard, id)
		delete(r.beats, id)
	}
	if len(ids) == 0 {
		clear(r.heard)
		clear(r.beats)
	}
}

// figures are what the rhythm comes to.
func (r *rhythm) figures(now time.Duration) Rhythm {
	return Rhythm{
		Silence: r.silence.kept.of(now, rhythmKept), Stall: r.stall.kept.of(now, rhythmKept), RoundTrip: r.roundTrip.kept.of(now, rhythmKept),
		RecentSilence: r.silence.recent.of(now, rhythmRecent), RecentStall: r.stall.recent.of(now, rhythmRecent), RecentRoundTrip: r.roundTrip.recent.of(now, rhythmRecent),
	}
}

// silence is how long ago the last sign of a leadership came that ends now.
func (n *Node) silence(token Token, cause Cause) time.Duration {
	switch cause {
	case election.CauseResigned, election.CauseRemoved, election.CauseStopped:
		return 0 // it was announced
	}
	if token.Leader.ID == n.id {
		return n.steppedAgo
	}
	for _, m := range n.machine.Members() {
		if m.ID == token.Leader.ID && !m.Heard.IsZero() {
			return max(0, n.stepped-m.Heard.Sub(n.born))
		}
	}
	return 0 // it was known from other members only
}
