package machine

import (
	"cmp"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file says how long an answer may take. A link that stands carries a message
// and its answer in 2·t_max. One that has yet to be made takes two trips more, for
// TCP's handshake, and two for TLS's: the message goes right behind the hello.

// answerTime is how long a message that goes to a member now, and its answer, may
// travel.
func (r *roll) answerTime(i int, now time.Time) time.Duration {
	if _, ok := r.relayTo(i, now); ok {
		return r.timing.DialTime() + 4*r.timing.TMax // by another member, whose link may have to be made
	}
	if r.members[i].link || r.noLinks {
		return 2 * r.timing.TMax
	}
	return r.timing.DialTime() + 2*r.timing.TMax
}

// longestAnswer is that of all whose reply is awaited; 2·t_max at least.
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

// relinking reports whether no link stands, but one that has ended is being made
// again: nobody can acknowledge anything before it is, or the dial has failed.
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

// firstDial reports whether a member's link has ended, or was never there, and the
// first dial since is under way: it tells more than silence does.
func (peer *member) firstDial() bool { return peer.anew && peer.dialing && !peer.link }

// mayBeAnswered says of which kinds of messages a ProbeReply may be the answer. Whoever
// begins with one says when it left, in its own time, and so does the answer: see
// [Machine.tooLate].
func mayBeAnswered(k election.MessageKind) bool {
	switch k {
	case election.Probe, election.Handover, election.Election, election.Coordinator, election.Elected:
		return true
	}
	return false
}

// stamps reports whether msg is to say when it left: a question that begins here.
func (c *Config) stamps(msg *election.Message) bool {
	by := msg.Round.Initiator
	return mayBeAnswered(msg.Kind) && !c.NoDetector && (by == election.None || by == c.Self.ID)
}

// stampAt is a moment in this process's own time, which no earlier one with its id
// shares; never 0, which is no time.
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
	case q == nil || !mayBeAnswered(q.Kind) || cmp.Or(q.Round.Initiator, q.From) != to: // whose stamp it is
		return unasked
	}
	return q.Stamp
}

// tooLate reports whether what a ProbeReply says of another's leadership may no longer
// hold: it answers a question that is older than any answer may take, or one that was
// never asked, so that nobody knows how long it was on its way. Who follows nobody, or
// another, is told unasked that there is a higher leadership, and goes by that. An older
// version says nothing of what it answers, and is believed.
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

// answers reports whether a ProbeReply tells what its sender knows now: it is to a question of
// now, or from whom we follow. Who has answered an earlier question may have claimed since. An
// older version says nothing of what it answers.
func (m *Machine) answers(report *election.Message) bool {
	t := report.Token
	follows := t.Leader.ID == report.From && (t == m.tenure.Next() || t == m.View())
	return follows || report.Stamp == 0 || report.Stamp >= m.cfg.stampAt(m.since, m.origin)
}
