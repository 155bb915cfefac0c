package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps a member from leading next to a cluster that refuses it. Two configurations that
// differ stay so until a user changes either: a member that is missing on a peer's list does not
// lead. A list that came from members differs for a moment only, for which this member asks to be
// admitted. Two secrets keep two sides apart: the larger leads, or of equal sides the side with the
// greatest id.

// refusals is whether live members of the list refuse this member.
type refusals struct {
	mayBeRefused bool          // a member has refused a connection of ours, and has not taken any since
	refusedBy    []election.ID // because of which this member does not lead, the highest rank first; never changed in place
}

// refuses takes note of how a member has answered a dial of ours: it refuses us because of why, or (nil)
// it has let us in, or has not answered.
func (m *Machine) refuses(i int, why error) {
	peer := &m.members[i]
	if peer.refusal == nil {
		peer.refusedAt = m.now
	}
	peer.refusal = nil
	if why == election.ErrNotMember || why == election.ErrForeign {
		peer.refusal, m.mayBeRefused = why, true
	}
	m.reviewRefusals()
}

// reviewRefusals finds out whether this member may lead as far as refusals go.
func (m *Machine) reviewRefusals() {
	if !m.mayBeRefused {
		return
	}
	refused := len(m.refusedBy) > 0
	outvoted, decided := m.outnumbered(m.tenure.Leading(), m.now)
	if !decided.IsZero() {
		m.alarms.Wake(decided)
	}
	m.refusedBy, m.mayBeRefused = nil, false
	m.others(func(_ int, peer *member) {
		m.mayBeRefused = m.mayBeRefused || peer.refusal != nil
		unlisted := peer.refusal == election.ErrNotMember && m.disagree(peer)
		if unlisted || outvoted && peer.refusal == election.ErrForeign {
			m.refusedBy = append(m.refusedBy, peer.ID)
		}
	})
	switch {
	case !refused && len(m.refusedBy) > 0:
		m.note("is refused", m.refusedBy[0], m.tenure.Held(), m.members[m.index[m.refusedBy[0]]].refusal.Error())
		m.makeWay("a member of its list refuses it")
	case refused && len(m.refusedBy) == 0:
		m.standAgain("no member of its list refuses it any more")
	}
}

// RefusedBy are the members that refuse this member and for which it does not lead, the highest
// rank first; not to be changed.
func (f *refusals) RefusedBy() []election.ID { return f.refusedBy }

// outnumbered reports whether the members that refuse this member for its secret or its settings
// are more than those on its own side: itself, and the members that are up. A follower has that
// from its leader, its only connection.
//
// Of two sides of equal size the side with the greatest id leads. Both sides know the ids, and
// nothing else of each other: if the side that leads went on, a partition between two that lead
// would end with two leaders, and two that both start would have none. A member that does not lead
// waits first, until the far side's leader has dialed it in vain and has given up: until decided,
// if that is not zero.
func (r *roll) outnumbered(leading bool, now time.Time) (yes bool, decided time.Time) {
	refuse, side := 0, 1
	theirs, ours, since := election.None, r.self, time.Time{}
	r.others(func(_ int, peer *member) {
		switch {
		case peer.refusal == election.ErrForeign:
			refuse, theirs, since = refuse+1, greater(theirs, peer.ID), later(since, peer.refusedAt)
		case peer.state == election.StateUp:
			side, ours = side+1, greater(ours, peer.ID)
		}
	})
	if refuse != side || theirs.Compare(ours) > 0 {
		return refuse >= side, decided
	}
	decided = since.Add(maxBackoff + r.timing.T())
	if leading || !now.Before(decided) {
		return false, time.Time{}
	}
	return true, decided
}

func greater(a, b election.ID) election.ID {
	if a == election.None || b.Compare(a) > 0 {
		return b
	}
	return a
}
