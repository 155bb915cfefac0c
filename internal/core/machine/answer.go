package machine

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has how long an answer may take. An existing link carries a message and its answer in
// 2·t_max. A link that has yet to be made takes two more delays for TCP's handshake, and two for
// TLS's: the message goes right behind the hello.

// answerTime is how long a message that goes to a member now, and its answer, may
// travel.
func (r *roll) answerTime(i int, now time.Time) time.Duration {
	if _, ok := r.relayTo(i, now); ok {
		return r.timing.DialTime() + 4*r.timing.TMax // by a relay, whose link may have to be made
	}
	if r.members[i].link || r.noLinks {
		return 2 * r.timing.TMax
	}
	return r.timing.DialTime() + 2*r.timing.TMax
}

// longestAnswer is that of all members whose reply is awaited; 2·t_max at least.
func (r *roll) longestAnswer(now time.Time) time.Duration {
	longest := 2 * r.timing.TMax
	for i := range r.members {
		if r.members[i].awaited {
			longest = max(longest, r.answerTime(i, now))
		}
	}
	return longest
}

// awaitAnew waits for a member's reply for as long as it takes from now: the question leaves again.
func (m *Machine) awaitAnew(i int) {
	if m.members[i].awaited {
		m.alarms.Extend(timerVouch, m.now.Add(m.answerTime(i, m.now)))
		m.alarms.Extend(timerDiscovery, m.now.Add(m.answerTime(i, m.now)))
	}
}

// farT is T over a link that has yet to be made.
func (r *roll) farT() time.Duration { return r.timing.DialTime() + r.timing.T() }

// relinking reports whether there is no link, but an ended link is being made again: nothing can be
// acknowledged before that, or before the dial has failed.
func (r *roll) relinking() bool {
	dials := false
	for i := range r.members {
		if r.members[i].link {
			return false
		}
		dials = dials || r.members[i].firstDial()
	}
	return dials
}

// firstDial reports whether a member's link has ended, or was never there, and the first dial since
// is under way: it proves more than silence does.
func (peer *member) firstDial() bool { return peer.anew && peer.dialing && !peer.link }

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
func (m *Machine) echo(to election.ID) int64 {
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
func (m *Machine) tooLate(report *election.Message) bool {
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

// answers reports whether a ProbeReply has what its sender knows now: it answers a present
// question, or the leader that we follow sent it. A member that has answered an earlier question
// may have claimed since. Older versions send no stamp.
func (m *Machine) answers(report *election.Message) bool {
	t := report.Token
	follows := t.Leader.ID == report.From && (t == m.tenure.Next() || t == m.View())
	return follows || report.Stamp == 0 || report.Stamp >= m.cfg.stampAt(m.since, m.origin)
}
