package machine

import (
	"cmp"
	"math/rand/v2"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/alarm"
	"github.com/batuta-dev/batuta/internal/core/detector"
	"github.com/batuta-dev/batuta/internal/core/epoch"
	"github.com/batuta-dev/batuta/internal/core/pause"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// ground is the state below all parts: the configuration, the time and the actions of a Step, and the
// parts that have packages of their own.
type ground struct {
	cfg    Config
	random rand.PCG

	now    time.Time // of the current or last Step
	origin time.Time // of the first Step; Stamps count from it
	out    []election.Action

	taking  *election.Message // what is being taken in
	byRelay bool              // it has come by a relay

	alarms   alarm.Alarms
	detector detector.Detector
	tenure   tenure.Tenure
	seen     epoch.Seen
	disk     epoch.Disk
	pause    pause.Pause
}

// mayBeAnswered returns which kinds of messages a ProbeReply may answer. The sender of such a
// question stamps it with its own time, and the answer carries that stamp: see [Machine.tooLate].
func mayBeAnswered(k election.MessageKind) bool {
	switch k {
	case election.Probe, election.Handover, election.Election, election.Coordinator, election.Elected:
		return true
	}
	return false
}

// stamps reports whether msg is to carry a stamp: a question that begins here.
func (c *Config) stamps(msg *election.Message) bool {
	by := msg.Round.Initiator
	return mayBeAnswered(msg.Kind) && !c.NoDetector && (by == election.None || by == c.Self.ID)
}

// stampAt is a moment in this process's own time, which no earlier process of its id shares; never
// 0, which is no time.
func (c *Config) stampAt(at, origin time.Time) int64 {
	const mixes = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio
	return int64((c.Incarnation*mixes+c.Seed)>>2) + int64(at.Sub(origin)) + 1
}

// unasked is the stamp of a ProbeReply that answers no question.
const unasked = -1

// echo is the stamp of the question that is being taken in, if a ProbeReply to that member
// answers it: 0 if the asker is of an older version, which gives none.
func (m *ground) echo(to election.ID) int64 {
	q := m.taking
	switch {
	case m.cfg.NoDetector:
		return 0
	case q == nil || !mayBeAnswered(q.Kind) || cmp.Or(q.Round.Initiator, q.From) != to: // the stamp is this one's
		return unasked
	}
	return q.Stamp
}

// tooLate reports whether a ProbeReply about a different member's leadership may be out of date: it
// answers a question that is older than any answer may take, or that was never asked, so that its
// age is not known. A member that follows a different leader, or none, receives unasked that there
// is a higher leadership, and accepts that. Older versions send no stamp, and are accepted.
func (m *ground) tooLate(report *election.Message) bool {
	switch report.Stamp {
	case 0:
		return false
	case unasked:
		return report.Token == m.tenure.Held()
	}
	longest := m.cfg.Timing.DialTime() + 2*m.cfg.Timing.TMax + m.cfg.Timing.TProcess
	if m.byRelay {
		longest += 2 * m.cfg.Timing.TMax
	}
	return report.Stamp > m.cfg.stampAt(m.now, m.origin) || report.Stamp < m.cfg.stampAt(m.now.Add(-longest), m.origin)
}

// leaderAge is the time since the leader itself was received: 0 for this member, negative
// when it was not in this leadership.
func (m *ground) leaderAge() time.Duration {
	switch {
	case m.tenure.Beats():
		return 0
	case !m.tenure.Live():
		return -1
	}
	return m.detector.Age(m.now)
}

// Spared is until when reports of members spare a silent leader; for the lab.
func (m *ground) Spared() time.Time { return m.detector.Spared() }

// View is the leadership that the driver knows, zero while it is undefined.
func (m *ground) View() election.Token { return m.tenure.View() }

// Held is the highest leadership this member knows to have been, ended or not.
func (m *ground) Held() election.Token { return m.tenure.Held() }

// Vouch is the leadership this member follows, or leads in, and how long ago it received that
// leader itself: negative when it did not, or there is none.
func (m *ground) Vouch() (election.Token, time.Duration) {
	return m.View(), m.leaderAge()
}

// Highest is the highest epoch that this member knows of.
func (m *ground) Highest() uint64 { return m.seen.Highest() }

// Deadline is when to step the Machine next, with a Woke event, if nothing
// happens before. It is false when nothing is due.
func (m *ground) Deadline() (time.Time, bool) {
	at := m.alarms.Deadline()
	return at, !at.IsZero()
}

// begin begins a step, and returns when the last was.
func (m *ground) begin(now time.Time) (last time.Time) {
	m.out = m.out[:0]
	m.tenure.BeginStep()
	last = m.now
	if now.After(last) {
		m.now = now
	}
	return last
}

// do asks the driver for a.
func (m *ground) do(a election.Action) { m.out = append(m.out, a) }

func (m *ground) trace(r election.Record) {
	if m.cfg.Trace == nil {
		return
	}
	r.At, r.Member, r.Election = m.now, m.cfg.Self.ID, m.cfg.Election
	m.cfg.Trace(r)
}

func (m *ground) note(what string, peer election.ID, t election.Token, why string) {
	m.trace(election.Record{What: what, Peer: peer, Token: t, Why: why})
}

// Self is this member, as it ranks now.
func (m *ground) Self() election.Rank { return m.cfg.Self }

// LeadsUntilItsWorkStops reports whether this member's leadership has ended, its work still runs, and
// no higher leadership is the reason: no member leads meanwhile.
func (m *ground) LeadsUntilItsWorkStops() bool {
	return m.tenure.Draining() && m.tenure.Ended() != election.CauseSuperseded
}

// Moved is [tenure.Tenure.Moved], for the lab.
func (m *ground) Moved() (from, to tenure.Phase, wrong bool) { return m.tenure.Moved() }

// routine kinds flow all the time and would drown the trace.
func routine(k election.MessageKind) bool {
	return k == election.Beat || k == election.Ack || k == election.Ping || k == election.Pong || k == election.Relay
}

// Paused returns when a pause ends, zero without a pause, and the member that keeps leadership until
// then.
func (m *ground) Paused() (time.Time, election.ID) { return m.pause.Until(m.now) }

// PauseVersion is higher after each change of the pause.
func (m *ground) PauseVersion() uint64 { return m.pause.Version() }

// bears adds to a trace how long silence is tolerated.
func bears(t election.Timing) string {
	if t.Silence == 0 {
		return "T"
	}
	return t.Silence.String()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
