package machine

import "time"

// This file says how long an answer may take. A link that stands carries a message
// and its answer in 2·t_max. One that has yet to be made takes two trips more, for
// TCP's handshake, and two for TLS's: the message goes right behind the hello.

// answerTime is how long a message that goes to a member now, and its answer, may
// travel.
func (m *Machine) answerTime(i int) time.Duration {
	if _, ok := m.relayTo(i); ok {
		return m.cfg.Timing.DialTime() + 4*m.cfg.Timing.TMax // by another member, whose link may have to be made
	}
	if m.members[i].link || m.cfg.NoDetector {
		return 2 * m.cfg.Timing.TMax
	}
	return m.cfg.Timing.DialTime() + 2*m.cfg.Timing.TMax
}

// longestAnswer is that of all whose report is awaited; 2·t_max at least.
func (m *Machine) longestAnswer() time.Duration {
	longest := 2 * m.cfg.Timing.TMax
	for i := range m.members {
		if m.members[i].asked {
			longest = max(longest, m.answerTime(i))
		}
	}
	return longest
}

// farT is T over a link that has yet to be made.
func (m *Machine) farT() time.Duration { return m.cfg.Timing.DialTime() + m.cfg.Timing.T() }

// ackTime is how old the newest beat may be that somebody has acknowledged: the silence
// that is borne, or what an answer and the next beat take where beats are rare.
func (m *Machine) ackTime() time.Duration {
	return max(m.cfg.Timing.Bears(), 2*m.cfg.Timing.TMax+m.cfg.Timing.Heartbeat)
}

// relinking reports whether no link stands, but one that has ended is being made
// again: nobody can acknowledge anything before it is, or the dial has failed.
func (m *Machine) relinking() bool {
	dials := false
	for i := range m.members {
		if m.members[i].link {
			return false
		}
		dials = dials || m.firstDial(i)
	}
	return dials
}

// firstDial reports whether a member's link has ended, or was never there, and the
// first dial since is under way: it tells more than silence does.
func (m *Machine) firstDial(i int) bool {
	peer := &m.members[i]
	return peer.anew && peer.dialing && !peer.link
}

// greetedBy takes note that a link to a member stands: its process lives. When that
// is the leader, its first beat on this link may come T later.
func (m *Machine) greetedBy(i int) {
	if beat := m.now.Add(m.cfg.Timing.T()); m.isLeader(i) && beat.After(m.grace) {
		m.grace = beat
	}
}
