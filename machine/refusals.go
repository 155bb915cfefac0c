package machine

import "github.com/batuta-dev/batuta/election"

// This file keeps a member from leading next to a cluster that refuses it. Two configurations that differ stay so until
// a user changes one: a member that another has on no list does not lead. A list that came from members
// differs for a moment only, for which this one asks to be let in. Two secrets keep two sides apart: the larger leads.

// refusals is whether live members of the list refuse this one.
type refusals struct {
	mayBeRefused bool        // a member has refused a connection of ours, and has not taken one since
	refusedBy    election.ID // a member because of which this one does not lead; None: there is none
}

// refuses takes note of how a member has answered a dial of ours: it refuses us because of why, or (nil)
// it has let us in, or has not answered.
func (m *Machine) refuses(i int, why error) {
	peer := &m.members[i]
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
	was, outnumbered := m.refusedBy, m.outnumbered()
	m.refusedBy, m.mayBeRefused = election.None, false
	m.others(func(_ int, peer *member) {
		m.mayBeRefused = m.mayBeRefused || peer.refusal != nil
		unlisted := peer.refusal == election.ErrNotMember && m.disagree(peer)
		if m.refusedBy == election.None && (unlisted || outnumbered && peer.refusal == election.ErrForeign) {
			m.refusedBy = peer.ID
		}
	})
	switch {
	case was == election.None && m.refusedBy != election.None:
		m.note("is refused", m.refusedBy, m.view, m.members[m.index[m.refusedBy]].refusal.Error())
		m.makeWay("a member of its list refuses it")
	case was != election.None && m.refusedBy == election.None:
		m.standAgain("no member of its list refuses it any more")
	}
}

// outnumbered reports whether the members that refuse this one for its secret or its settings are more than those on its
// own side, from which it has received something within T, and itself. Of two sides of one size the one that leads goes
// on. A process that has taken the address of a dead member is one only.
func (m *Machine) outnumbered() bool {
	refuse, side := 0, 1
	m.others(func(_ int, peer *member) {
		switch {
		case peer.refusal == election.ErrForeign:
			refuse++
		case m.now.Sub(peer.heard) <= m.cfg.Timing.T():
			side++
		}
	})
	return refuse > side || refuse == side && !m.leading()
}
