package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps a member from leading next to a cluster that refuses it. Two configurations that differ stay so until
// a user changes one: a member that another has on no list does not lead. A list that came from members
// differs for a moment only, for which this one asks to be let in. Two secrets keep two sides apart: the larger leads, or
// of two alike the one with the greatest id.

// refusals is whether live members of the list refuse this one.
type refusals struct {
	mayBeRefused bool        // a member has refused a connection of ours, and has not taken one since
	refusedBy    election.ID // a member because of which this one does not lead; None: there is none
	outvoted     bool        // those with another secret or other settings are too many
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
	was := m.refusedBy
	m.outvoted, m.refusedBy, m.mayBeRefused = m.outnumbered(), election.None, false
	m.others(func(_ int, peer *member) {
		m.mayBeRefused = m.mayBeRefused || peer.refusal != nil
		if m.refusedBy == election.None && m.counts(peer) {
			m.refusedBy = peer.ID
		}
	})
	switch {
	case was == election.None && m.refusedBy != election.None:
		m.note("is refused", m.refusedBy, m.tenure.Held(), m.members[m.index[m.refusedBy]].refusal.Error())
		m.makeWay("a member of its list refuses it")
	case was != election.None && m.refusedBy == election.None:
		m.standAgain("no member of its list refuses it any more")
	}
}

// RefusedBy are the members that refuse this one and for which it does not lead, the highest rank first.
func (m *Machine) RefusedBy() (ids []election.ID) {
	if m.refusedBy == election.None {
		return nil
	}
	m.others(func(_ int, peer *member) {
		if m.counts(peer) {
			ids = append(ids, peer.ID)
		}
	})
	return ids
}

// counts reports whether this member does not lead because of one that refuses it.
func (m *Machine) counts(peer *member) bool {
	unlisted := peer.refusal == election.ErrNotMember && m.disagree(peer)
	return unlisted || m.outvoted && peer.refusal == election.ErrForeign
}

// outnumbered reports whether the members that refuse this one for its secret or its settings are more than those on its
// own side: itself, and the members that are up. A follower has that from its leader, to which alone it is connected.
//
// Of two sides of one size the one with the greatest id leads. Both sides know the ids, and nothing else of each other:
// if the side that leads went on, a partition between two that lead would end with two leaders, and two that both
// start would have none. A member that does not lead waits first, until the other side's leader has dialed it in
// vain and has given up.
func (m *Machine) outnumbered() bool {
	refuse, side := 0, 1
	theirs, ours, since := election.None, m.cfg.Self.ID, time.Time{}
	m.others(func(_ int, peer *member) {
		switch {
		case peer.refusal == election.ErrForeign:
			refuse, theirs, since = refuse+1, greater(theirs, peer.ID), later(since, peer.refusedAt)
		case peer.state == election.StateUp:
			side, ours = side+1, greater(ours, peer.ID)
		}
	})
	if refuse != side || theirs.Compare(ours) > 0 {
		return refuse >= side
	}
	decided := since.Add(maxBackoff + m.cfg.Timing.T())
	if m.tenure.Leading() || !m.now.Before(decided) {
		return false
	}
	m.alarms.Wake(decided)
	return true
}

func greater(a, b election.ID) election.ID {
	if a == election.None || b.Compare(a) > 0 {
		return b
	}
	return a
}

// letInByLeader takes note that the leader, which has our secret and our settings, has a connection to a member: that one
// has them, too, though it may have refused this member before.
func (m *Machine) letInByLeader(i int) {
	if peer := &m.members[i]; peer.refusal == election.ErrForeign {
		peer.refusal = nil
	}
}
