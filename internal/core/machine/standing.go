package machine

import (
	"fmt"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// stance is why this member is a candidate, or is not.
type stance struct {
	crew
	standing
	handover
	refusals
	discovery
	inheritance
}

// What follows keeps a cluster from being founded by accident: of three machines that do not reach
// each other yet, each would lead a cluster of its own.

// founds reports whether this member may be the first leader that there is: no, while it knows of
// no leadership, in this life or an earlier life, and knows too few members.
func (m *stance) founds() bool {
	switch {
	case m.seen.Highest() > 0 || m.cfg.NoDetector:
		return true
	case m.cfg.Expect > 0:
		return m.acquainted() >= m.cfg.Expect
	}
	return !m.cfg.Newcomer
}

// tooFew reports whether this member receives fewer members than it needs to lead. A leader has received a member
// within T. A new leader has that time, and time to connect. A member without a leader hangs up links that
// are silent for T: it has time to connect again, and for the answer. A follower is not connected to the
// members: it counts all that neither it nor its leader has found down, while that leader lives and receives enough.
func (m *stance) tooFew() bool {
	need, within := m.cfg.MinMembers, m.farT()
	if need <= 1 || m.cfg.NoDetector || m.tenure.Leading() && m.now.Sub(m.tenure.BegunAt()) <= within {
		return false
	}
	bears := m.cfg.Timing.Bears()
	if within = max(within+2*m.cfg.Timing.TMax, bears); m.tenure.Leading() || m.stood == election.IneligibleFew {
		within = bears
	}
	led := time.Time{}
	if leader, listed := m.index[m.tenure.Held().Leader.ID]; listed && m.members[leader].eligibility != election.IneligibleFew {
		led = m.detector.SilentAt().Add(-bears)
	}
	m.others(func(_ int, peer *member) {
		if peer.ID == m.answering {
			need--
			return
		}
		if need <= 1 || peer.down && !m.tenure.Leading() {
			return
		}
		at := peer.heard
		if peer.state != election.StateDown { // as the leader reports it
			at = later(at, led)
		}
		if !peer.viaAt.IsZero() { // it is asked by relays after each dial in vain
			at = later(at, peer.viaAt.Add(maxBackoff+m.farT()))
		}
		if !m.now.After(m.detector.Excuse(at.Add(within))) {
			need--
		}
	})
	return need > 1
}

// doubt records why this member asks for a leader before it is a candidate again; empty: it need
// not.
func (h *handover) doubt(why string) { h.doubts = why }

func (m *stance) mayPreempt() bool {
	return !m.cfg.NoPreempt && m.tenure.Live() && m.Standing() == election.Eligible && m.cfg.Self.Above(m.rankOf(m.tenure.Held().Leader))
}

// drop gives up the leadership that is being saved.
func (m *stance) drop() {
	m.tenure.Drop()
	m.enterPhaseWithoutLeader()
}

// Members are all members as this member sees them, lowest rank first.
func (m *stance) Members() []MemberView {
	views := make([]MemberView, len(m.members))
	for i, e := range m.members {
		views[i] = MemberView{e.Member, e.state, e.epoch, e.heard, e.incarnation, e.eligibility, m.metas.Of(e.ID), m.reaper.At(e.ID), false}
		if e.state == election.StateUnknown {
			views[i].State = election.StateAdded
		}
	}
	views[m.me].Epoch, views[m.me].Heard, views[m.me].Eligibility = m.tenure.Held().Epoch, m.now, m.eligibility()
	views[m.me].Electing = !m.alarms.First(func(timer string) bool {
		return timer == timerHandover || !strings.HasPrefix(timer, ownTimers)
	}).IsZero()
	return views
}

// reconsiderRank has this member take over soon if it outranks the leader now. Not at once: of many
// that start together only the highest need take over.
func (m *stance) reconsiderRank() {
	if m.mayPreempt() {
		m.alarms.Set(timerHandover, m.now.Add(m.cfg.Timing.Heartbeat))
	}
}

// phaseWithoutLeader is the phase of a member without a leader.
func (m *stance) phaseWithoutLeader() tenure.Phase {
	switch {
	case m.place == removed:
		return tenure.PhaseRemoved
	case m.tenure.Next().Defined():
		return tenure.PhaseElecting
	case m.mode == awaitsLeader:
		return tenure.PhaseJoining
	case m.mode == asks:
		return tenure.PhaseDiscovering
	}
	return tenure.PhaseElecting
}

// enterPhaseWithoutLeader has this member, if it has no leader, be in the phase that goes with what
// it is waiting for.
func (m *stance) enterPhaseWithoutLeader() {
	switch m.tenure.Phase() {
	case tenure.PhaseJoining, tenure.PhaseDiscovering, tenure.PhaseElecting, tenure.PhaseRemoved:
		m.tenure.Enter(m.phaseWithoutLeader())
	}
}

// refusals is whether live members of the list refuse this member.
type refusals struct {
	mayBeRefused bool          // a member has refused a connection of ours, and has not taken any since
	refusedBy    []election.ID // because of which this member does not lead, the highest rank first; never changed in place
}

// RefusedBy are the members that refuse this member and for which it does not lead, the highest
// rank first; not to be changed.
func (f *refusals) RefusedBy() []election.ID { return f.refusedBy }

// What follows has whether this member itself is a candidate, and makes it a candidate again: see
// [election.Eligibility]. What members report of themselves is in members.go.

// standing is why this member itself is no candidate, besides what the rest of the parts know.
type standing struct {
	stood    election.Eligibility // its eligibility when that was last reviewed
	reported report               // what it last reported of itself
	changes  uint64               // how often that has changed

	unfounded  bool      // it may not be the first leader that there is, yet
	closing    bool      // its process is about to end
	unhealthy  bool      // its own check has failed
	lastResort bool      // it is a candidate all the same: no healthy member leads, nor is in reach
	retired    bool      // there is nothing to do for this member as a leader
	declined   time.Time // when it last reported that it is no candidate to a member that may claim; zero: all have been asked since
	resigned   uint64    // this member is no candidate until a leadership above this epoch that lasted has ended; 0: it has not resigned
}

// report is what a member reports of itself in each message.
type report struct {
	is              election.Eligibility
	leads, draining bool
}

// resignUntilAbove ends this member's candidacy until a leadership above epoch has ended that
// lasted for 2·T; with 0 it is a candidate again.
func (s *standing) resignUntilAbove(epoch uint64) { s.resigned = epoch }

// reviewed records its eligibility, and returns what it was at the last review.
func (s *standing) reviewed(is election.Eligibility) (was election.Eligibility) {
	was, s.stood = s.stood, is
	return was
}

// changesTo returns how often what this member reports of itself has changed, now included.
func (s *standing) changesTo(now report) uint64 {
	if s.reported != now {
		s.reported = now
		s.changes++
	}
	return s.changes
}

// declines notes when this member has reported that it is no candidate; zero: that holds no more.
func (s *standing) declines(at time.Time) { s.declined = at }

// eligibility returns why this member is no candidate.
func (m *stance) eligibility() election.Eligibility {
	switch {
	case m.place != onList:
		return election.IneligibleGone
	case m.closing:
		return election.IneligibleClosing
	case m.cfg.Observer:
		return election.IneligibleObserver
	case m.unhealthy && !m.lastResort:
		return election.IneligibleUnhealthy
	case m.disk.Unfit():
		return election.IneligibleUnsaved
	}
	return m.barred()
}

// barred returns which reason there is that concerns only the leadership of the cluster.
func (m *stance) barred() election.Eligibility {
	switch {
	case len(m.refusedBy) > 0:
		return election.IneligibleRefused
	case m.mode == awaitsLeader:
		return election.IneligibleJoining
	case m.unfounded:
		return election.IneligibleUnfounded
	case m.pause.Bars(m.now, m.cfg.Self.ID, m.Knows) && !m.tenure.Leading():
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
func (m *stance) Standing() election.Eligibility {
	if a := m.eligibility(); a != election.Eligible || !m.lastResort {
		return a
	}
	return election.LastResort
}

// eligible reports whether a member may be elected, as we see it: a candidate of last resort is a
// rival only of such. If we have found the leader lost, a member that is a candidate next is about
// to find that out, too.
func (m *stance) eligible(peer *member) bool {
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

// reconsider makes a member that is no candidate a candidate after all, if no leader
// appears within 2·T.
func (m *stance) reconsider() {
	if m.tenure.Draining() {
		return // the members have not been notified yet
	}
	if m.resigned > 0 || m.disk.Slow() || m.unhealthy && m.cfg.LeadUnhealthy {
		m.alarms.Set(timerEligible, m.now.Add(2*m.cfg.Timing.T()))
	}
}

// tryLastResort makes an unhealthy member a candidate, if it may be and no healthy member is in
// sight that could lead instead.
func (m *stance) tryLastResort() {
	if !m.unhealthy || !m.cfg.LeadUnhealthy {
		return
	}
	for i := range m.members {
		if peer := &m.members[i]; i != m.me && m.eligible(peer) {
			m.reconsider()
			return
		}
	}
	m.lastResort = true
}

// needsNoLastResort: there is a leader, or a healthy member that may lead.
func (s *standing) needsNoLastResort() { s.lastResort = false }

// AdmitTransfer reports whether this member, the leader, can hand leadership over to a member: nil,
// [election.ErrNotMember], [election.ErrNotLeading], or an error that wraps [election.ErrUnfit] and
// has the reason. To hand it over to itself is nothing to do.
func (m *stance) AdmitTransfer(to election.ID) error {
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
			return fmt.Errorf("member %s %w: member %s outranks it and would replace it; hand over to that member, give %s a higher priority, or run every member with preempt=false", to, election.ErrUnfit, other.ID, to)
		}
	}
	return nil
}

// inheritance is the member to which leadership is left, by its last leader or, while we drain, by
// us.
type inheritance struct {
	heir   election.ID    // None: the winner leads
	behind election.Token // the leadership that the heir follows
}

// bequeath names the member that leads next, and behind which leadership.
func (i *inheritance) bequeath(to election.ID, behind election.Token) { i.heir, i.behind = to, behind }

// leaveTo takes note of the member that is to claim behind a leadership, if none above that is known.
func (m *stance) leaveTo(heir election.ID, behind election.Token) {
	if m.tenure.Held().Above(behind) || m.behind.Above(behind) {
		return
	}
	if heir == m.cfg.Self.ID {
		m.resignUntilAbove(0) // it is asked to lead
	}
	m.alarms.Cancel(timerHeir)
	m.bequeath(heir, behind)
	if heir != election.None {
		m.alarms.Set(timerHeir, m.now.Add(m.cfg.Timing.T()))
	}
}

// disinherit leaves leadership to the winner.
func (m *stance) disinherit() {
	m.bequeath(election.None, election.Token{})
	m.alarms.Cancel(timerHeir)
}
