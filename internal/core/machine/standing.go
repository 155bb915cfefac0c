package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has whether this member itself is a candidate, and makes it a candidate again: see
// [election.Eligibility]. What members report of themselves is in eligibility.go.

// standing is why this member itself is no candidate, besides what the rest of the parts know.
type standing struct {
	closing    bool      // its process is about to end
	unhealthy  bool      // its own check has failed
	lastResort bool      // it is a candidate all the same: no healthy member leads, nor is in reach
	retired    bool      // there is nothing to do for this member as a leader
	declined   time.Time // when it last replied that it is no candidate to a member that may claim; zero: all have been asked since
	resigned   uint64    // we stand aside until a leadership above this epoch that lasted has ended; 0: we do not
}

// resignUntilAbove has this member stand aside until a leadership above epoch has ended that
// lasted for 2·T; with 0 it stands again.
func (s *standing) resignUntilAbove(epoch uint64) { s.resigned = epoch }

// declines notes when this member has replied that it is no candidate; zero: that holds no more.
func (s *standing) declines(at time.Time) { s.declined = at }

// eligibility returns why this member is no candidate.
func (m *Machine) eligibility() election.Eligibility {
	switch {
	case m.place != onList:
		return election.IneligibleGone
	case m.closing:
		return election.IneligibleClosing
	case m.cfg.Observer:
		return election.IneligibleObserver
	case m.unhealthy && !m.lastResort: // before what keeps it from the cluster's own lead alone
		return election.IneligibleUnhealthy
	case m.disk.Unfit():
		return election.IneligibleUnsaved
	case len(m.refusedBy) > 0:
		return election.IneligibleRefused
	case m.mode == awaitsLeader:
		return election.IneligibleJoining
	case m.unfounded:
		return election.IneligibleUnfounded
	case m.maintenance.Bars(m.now, m.cfg.Self.ID, m.Knows) && !m.tenure.Leading():
		return election.IneligiblePaused
	case m.tooFew():
		return election.IneligibleFew
	case m.working && !m.tenure.Leading():
		return election.IneligibleWorking
	case m.resigned > 0 && !m.retired && m.tenure.Live() && m.tenure.Held().Epoch > m.resigned && m.tenure.Lasted(m.now, m.cfg.Timing):
		return election.StandsNext
	case m.resigned > 0 || m.retired:
		return election.IneligibleResigned
	}
	return election.Eligible
}

// Standing is what this member publishes of that.
func (m *Machine) Standing() election.Eligibility {
	if a := m.eligibility(); a != election.Eligible || !m.lastResort {
		return a
	}
	return election.LastResort
}

// eligible reports whether a member may be elected, as we see it: a candidate of last resort is a
// rival only of such. If we have found the leader lost, a member that is a candidate next is about
// to find that out, too.
func (m *Machine) eligible(peer *member) bool {
	switch peer.eligibility {
	case election.Eligible:
		return !peer.down
	case election.LastResort:
		return !peer.down && m.lastResort
	case election.StandsNext:
		return !peer.down && !m.tenure.Live()
	}
	return false
}

// reconsider has a member that stands aside stand after all, if no leader
// appears within 2·T.
func (m *Machine) reconsider() {
	if m.tenure.Draining() {
		return // the members have not been notified yet
	}
	if m.resigned > 0 || m.disk.Slow() || m.unhealthy && m.cfg.LeadUnhealthy {
		m.alarms.Set(timerEligible, m.now.Add(2*m.cfg.Timing.T()))
	}
}

// resign steps down: this member stands aside until a later leadership that lasted has ended.
func (m *Machine) resign() {
	if !m.tenure.Leading() && !m.tenure.Mine(m.tenure.Next()) {
		return // nothing to give up
	}
	m.maintenance.Hold(m.now, election.None)
	m.resignUntilAbove(max(m.seen.Highest(), 1))
	m.note("resigns", m.cfg.Self.ID, m.tenure.Held(), "it was asked to")
	m.makeWay("it resigned")
}

// close gives up the lead for good: this process is about to end, once its work has stopped.
func (m *Machine) close() {
	if m.closing {
		return
	}
	m.closing, m.lastResort = true, false
	m.note("closes", m.cfg.Self.ID, election.Token{}, "")
	m.makeWay("it closes")
}

// makeWay has this member neither lead nor claim: its reason to stand aside is set.
func (m *Machine) makeWay(why string) {
	switch {
	case m.tenure.Leading():
		m.stepDown(why)
	case m.tenure.Mine(m.tenure.Next()): // on its way to the disk: no member has received it
		m.withdraw()
	case m.tenure.Leaderless():
		m.reconsider()
	}
}

// standAgain lets this member take part anew, if nothing else holds it back.
func (m *Machine) standAgain(why string) {
	if m.eligibility() != election.Eligible || !m.tenure.Started() {
		return
	}
	if m.undecided() {
		m.note("stands", m.cfg.Self.ID, m.tenure.Held(), why)
		m.discover("others may have found a leader while it stood aside")
		return
	}
	m.preempt()
}

// setHealth records the result of this member's own check. An unhealthy member gives up the lead
// and does not claim; with LeadUnhealthy it does if there was no leader for 2·T and no healthy
// member is in reach.
func (m *Machine) setHealth(ok bool) {
	if m.unhealthy == !ok {
		return
	}
	m.unhealthy, m.lastResort = !ok, false
	if !ok {
		if !m.tenure.Leading() || !m.maintenance.On(m.now) { // else when the pause ends: see endUnfounded
			m.makeWay("it is unhealthy")
		}
		return
	}
	m.alarms.Cancel(timerEligible)
	m.standAgain("it is healthy again")
	if m.tenure.Leaderless() {
		m.reconsider() // it may have resigned, too
	}
}

// Paused returns when a pause ends, zero without a pause, and the member that keeps the lead until
// then.
func (m *Machine) Paused() (time.Time, election.ID) { return m.maintenance.Until(m.now) }

// setCandidacy records whether there is anything to do for this member as a leader. While there is
// nothing it gives up the lead and does not claim, even if no member does.
func (m *Machine) setCandidacy(on bool) {
	if m.retired == !on {
		return
	}
	m.retired = !on
	if !on {
		m.note("retires", m.cfg.Self.ID, m.tenure.Held(), "there is nothing to do for it as a leader")
		m.makeWay("there is nothing to do for it as a leader")
		return
	}
	m.standAgain("there is something to do for it as a leader")
	if m.tenure.Leaderless() {
		m.reconsider() // it may have resigned, too
	}
}

// tryLastResort makes an unhealthy member a candidate, if it may be and no healthy member is in
// sight that could lead instead.
func (m *Machine) tryLastResort() {
	if !m.unhealthy || !m.cfg.LeadUnhealthy {
		return
	}
	for i := range m.members {
		if peer := &m.members[i]; i != m.me && !peer.down && peer.eligibility == election.Eligible {
			m.reconsider()
			return
		}
	}
	m.lastResort = true
}

// needsNoLastResort: there is a leader, or a healthy member that may lead.
func (s *standing) needsNoLastResort() { s.lastResort = false }

// campaign begins a contest because the user asks for it.
func (m *Machine) campaign() {
	m.note("campaigns", m.cfg.Self.ID, m.tenure.Held(), "it was asked to")
	if m.resigned > 0 || m.retired {
		m.resignUntilAbove(0)
		m.retired = false
		m.alarms.Cancel(timerEligible)
		if m.tenure.Leaderless() {
			m.reconsider()                  // it may be unhealthy, too
			m.standAgain("it was asked to") // the members hold a contest without it
		}
	}
	if m.tenure.Started() && m.mode == idle && !m.tenure.Next().Defined() {
		m.step(election.Event{Kind: election.Campaign})
	}
	m.preempt()
}
