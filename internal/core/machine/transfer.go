package machine

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
)

// This file hands leadership over to a member by name. The leader steps down and names its heir. The
// heir claims at once, and the rest leave the contest to it for T. Then they ask all members who leads,
// because the heir may have claimed.

// inheritance is the member to which the lead is left, by its last leader or, while we drain, by
// us.
type inheritance struct {
	heir election.ID // None: the winner leads
}

// AdmitTransfer reports whether this member, the leader, can hand the lead over to a member: nil,
// [election.ErrNotMember], [election.ErrNotLeading], or an error that wraps [election.ErrUnfit] and
// has the reason. To hand it over to itself is nothing to do.
func (m *Machine) AdmitTransfer(to election.ID) error {
	i, ok := m.index[to]
	switch {
	case !ok:
		return fmt.Errorf("member %s: %w", to, election.ErrNotMember)
	case !m.tenure.Leading():
		return fmt.Errorf("member %s: %w", m.cfg.Self.ID, election.ErrNotLeading)
	case i == m.me:
		return nil
	}
	peer := &m.members[i]
	if state := peer.state; peer.down || state != election.StateUp {
		if state == election.StateUnknown || state == election.StateUp {
			state = "not reached yet"
		}
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, state)
	}
	if !peer.eligibleNext() {
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, peer.eligibility)
	}
	if m.cfg.NoPreempt {
		return nil
	}
	for j := len(m.members) - 1; j > i; j-- {
		if other := &m.members[j]; j != m.me && !other.down && other.state == election.StateUp && other.eligibleNext() {
			return fmt.Errorf("member %s %w: member %s outranks it and would take the lead from it; hand over to that one, give %s a higher priority, or run every member with preempt=false", to, election.ErrUnfit, other.ID, to)
		}
	}
	return nil
}

// eligibleNext reports whether a member is a candidate once the present leadership has ended: a
// resigned member is then.
func (peer *member) eligibleNext() bool {
	return peer.eligibility == election.Eligible || peer.eligibility == election.StandsNext || peer.eligibility == election.IneligibleResigned
}

// transfer steps down for a single member, if it may.
func (m *Machine) transfer(to election.ID) {
	if err := m.AdmitTransfer(to); err != nil {
		m.note("refuses", to, m.tenure.Held(), "to hand over: "+err.Error())
		return
	}
	if to == m.cfg.Self.ID {
		return
	}
	m.maintenance.Hold(m.now, election.None)
	m.resignUntilAbove(max(m.seen.Highest(), 1))
	m.heir = to
	m.note("transfers", to, m.tenure.Held(), "it was asked to")
	m.stepDown("it hands over to " + string(to))
}

// fit reports whether the heir still can take the lead, as far as is known.
func (r *roll) fit(heir election.ID) bool {
	i, ok := r.index[heir]
	return ok && (i == r.me || !r.members[i].down && r.members[i].eligibleNext())
}

// leaveTo takes note of the member that is to claim behind a leadership, if none above that is known.
func (m *Machine) leaveTo(heir election.ID, behind election.Token) {
	if m.tenure.Held().Above(behind) {
		return
	}
	if heir == m.cfg.Self.ID {
		m.resignUntilAbove(0) // it is asked to lead
	}
	m.disinherit()
	if heir != election.None {
		m.heir = heir
		m.alarms.Set(timerHeir, m.now.Add(m.cfg.Timing.T()))
	}
}

// inherits has a contest wait for the heir, which claims instead of beginning a contest.
func (m *Machine) inherits() bool {
	switch {
	case m.heir == election.None:
		return false
	case !m.fit(m.heir) || m.heir == m.cfg.Self.ID && !m.mayClaim():
		m.unclaimed("it is down, or stands no more", false)
	case m.heir == m.cfg.Self.ID:
		m.disinherit()
		m.take("the lead was left to it")
	}
	return true
}

// disinherit leaves the lead to the winner.
func (m *Machine) disinherit() {
	m.heir = election.None
	m.alarms.Cancel(timerHeir)
}

// missHeir begins the contest that waited, when the heir cannot take the lead any more.
func (m *Machine) missHeir() {
	if m.tenure.Draining() || m.heir == election.None || m.fit(m.heir) {
		return
	}
	m.unclaimed("it is down, or stands no more", false)
}

// unclaimed begins it because the heir has not claimed.
func (m *Machine) unclaimed(why string, silent bool) {
	heir := m.heir
	m.disinherit()
	if m.undecided() {
		m.note("awaits no more", heir, m.tenure.Held(), why)
		if silent {
			m.discover("the transfer target may have claimed")
			return
		}
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	}
}
