package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/roster"
)

// This file admits newcomers, and forgets those that never come. What may come onto the list is the
// roster's to decide.

// epochLead is how far a newcomer's report of its epoch is accepted, above the leadership that is
// known.
const epochLead = 1 << 16

// AdmitJoin reports whether e may join through this member: nil, or why not ([election.ErrRemoved],
// [election.ErrSameID], [election.ErrOldIncarnation], [election.ErrMixedKind], [election.ErrFull],
// [election.ErrTooManyJoins], [election.ErrWornOut]). A removed member may not, whatever it reports
// of its entry: that it was added again comes from a member. It changes nothing.
func (m *Machine) AdmitJoin(now time.Time, e election.Member, incarnation uint64) error {
	if err := m.roster.MayEnter(e, m.cfg.Closed); err != nil {
		return err
	}
	if err := m.Admit(now, e.Rank, incarnation); err != nil && err != election.ErrNotMember {
		return err
	}
	if _, changes := m.roster.Newcomer(e); changes && m.roster.Crowded(now) {
		return election.ErrTooManyJoins
	}
	return nil
}

// joinRequested admits a newcomer through this member. The driver has asked AdmitJoin. The newcomer
// reports what it holds: the version of its own entry, because it may know of its leaving before we
// do, and t, the highest leadership on its disk.
func (m *Machine) joinRequested(e election.Member, t election.Token) {
	if m.roster.MayEnter(e, m.cfg.Closed) != nil || e.ID == m.cfg.Self.ID {
		return
	}
	// No further than the members would accept: they drop what is far above.
	if t.Epoch <= min(election.MaxEpoch, m.tenure.Held().Epoch+epochLead) {
		m.seen.See(t.Epoch)
	}
	e, changes := m.roster.Newcomer(e)
	if changes {
		m.roster.CountJoin(m.now)
		m.change(e)
	}
	if !m.tenure.Live() { // it received no leader, and awaits a leader
		m.members[m.index[e.ID]].eligibility = election.IneligibleJoining
	}
}

// forgetStrangers has a leader check members that a join has put on the list some time ago: a
// member that was received stays, the rest go without a trace. Time in which this process was
// stopped does not count: it could not have received them.
func (m *Machine) forgetStrangers() {
	var due []election.Member
	awake := later(m.origin, m.detector.Resumed())
	for i := range m.members {
		peer := &m.members[i]
		e, _ := m.Entry(peer.ID)
		switch {
		case !e.New || m.now.Sub(later(peer.since, awake)) < roster.ForgetAfter:
			continue
		case i == m.me || !peer.heard.IsZero():
			e.New = false
		default:
			e.Departure = election.Left
			e.Version++
		}
		due = append(due, e)
	}
	m.merge(append(due, m.roster.Old()...), m.cfg.Self.ID)
}
