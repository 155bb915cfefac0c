package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// This file gives leadership away: at once as this member sees it, and as the members see it when its
// work has stopped; and asks a lower leader for it.

// handover is what is left of leaderships that end.
type handover struct {
	working bool   // user work of a leadership of ours still runs
	doubts  string // why we ask then before we are a candidate again; empty: we need not
}

// steward gives leadership away: for a user or a member that asks, when the work has stopped, and when
// this member is no candidate any more.
type steward struct{ elector }

// stepDown gives leadership away.
func (m *elector) stepDown(why string) { m.giveUp(election.CauseResigned, why, "") }

// giveUp ends our leadership: at once as we see it, as the members see it when the work has
// stopped. Until then we keep beating, so that no member begins. With doubts, a different member
// may lead by then: we ask.
func (m *elector) giveUp(cause election.Cause, why, doubts string) {
	if m.place != onList {
		m.pause.Hold(m.now, election.None) // the holder leaves the cluster
	}
	next := m.phaseWithoutLeader()
	if m.working || doubts == "" {
		next = tenure.PhaseDraining
	}
	if doubts != "" {
		m.doubts = doubts
	}
	m.end(next, cause, true, why)
	switch {
	case m.working:
		m.alarms.Wake(m.detector.BeatAt())
	case doubts != "": // the members have given it up
		m.discoverInDoubt()
	default:
		m.release()
	}
}

// release notifies the members that the leadership is over.
func (m *elector) release() {
	m.tenure.Drained(m.phaseWithoutLeader())
	m.reconsider()
	heir := m.heir
	if m.doubts != "" || !m.fit(heir) { // a different member may lead: a candidate asks before it claims
		heir = election.None
	}
	m.others(func(i int, peer *member) {
		if m.reaches(i, m.now) || peer.dialing || m.cfg.NoDetector && !peer.down { // what announced it may be on its way behind a dial
			m.send(i, &election.Message{Kind: election.Resign, Token: m.tenure.Held(), Heir: heir, Follows: m.doubts != ""})
		}
	})
	m.leaveTo(heir, m.tenure.Held())
	m.discoverInDoubt()
	m.reviewed(m.eligibility()) // what kept it from being a candidate may have ended meanwhile
	if m.place == onList {
		m.elect()
	}
}

// leaderResigned handles the end of a leadership.
func (m *steward) leaderResigned(msg *election.Message) {
	if msg.Token.Leader.ID != msg.From {
		return
	}
	if msg.Token == m.tenure.Next() && !m.tenure.Live() {
		m.abandon("its leader has resigned before it was saved")
		return
	}
	held := msg.Token == m.tenure.Held() || m.tenure.Continues(msg)
	awaited := m.heir
	if held || m.tenure.Leaderless() {
		m.leaveTo(msg.Heir, msg.Token)
	}
	switch {
	case held && m.tenure.Live():
		m.leaderEnds(msg, whyEnded(msg))
	case held:
		m.tenure.EndIsCertain()
	case !m.cfg.NoDetector:
		m.tenure.Announced(msg.Token, m.now) // late, or never followed
	}
	if !held && awaited != election.None && m.heir == election.None {
		m.unclaimed(awaited, "it has led meanwhile, and resigned", false)
	}
}

// leaderEnds handles the leader's own report that its leadership is over. A leader that reports so
// in a different message, or that a different member may lead, or that knows of a higher epoch, may
// have given way to a leader that we do not know: we ask before we claim.
func (m *elector) leaderEnds(msg *election.Message, why string) {
	if msg.Token != m.tenure.Held() { // a higher epoch of the leadership that is followed
		m.tenure.Announced(msg.Token, m.now)
	}
	if m.anotherMayLead(msg) {
		m.lose(EndOf(msg), true, why)
		m.discover("another may lead")
		return
	}
	m.loseLeader(EndOf(msg), true, why)
}

// whyEnded describes the end of a leadership that its leader announces, by what the message has of it.
func whyEnded(msg *election.Message) string {
	switch {
	case EndOf(msg) != election.CauseResigned:
	case msg.Heir != election.None:
		return "it hands over to " + string(msg.Heir)
	case msg.Eligibility != election.Eligible:
		return "it is no candidate: " + string(msg.Eligibility)
	}
	return "it announced its end"
}

// EndOf returns why the leadership of a message has ended, as its leader reports in it.
func EndOf(msg *election.Message) election.Cause {
	switch msg.Cause {
	case election.CauseSilent, election.CauseStalled, election.CauseSuperseded, election.CauseRemoved:
		return msg.Cause
	}
	return election.CauseResigned
}

// handOver asks of us, the leader, to make way for a higher rank.
func (m *steward) handOver(from int, msg *election.Message) {
	peer := &m.members[from]
	switch {
	case m.tenure.Draining() && msg.Token == m.tenure.Held():
		// Under way: it receives Resign when the work has stopped.
	case !m.tenure.Leading() || msg.Token != m.tenure.Held():
		m.replyToProbe(peer.ID)
	case m.cfg.NoPreempt || m.pause.On(m.now) || peer.eligibility != election.Eligible || !peer.Above(m.cfg.Self):
		m.note("refuses", peer.ID, m.tenure.Held(), "to hand over: it may not preempt")
	default:
		m.stepDown("it hands over to " + string(peer.ID))
	}
}

// setWorking records the driver's report that a leadership's work has begun or stopped.
func (m *steward) setWorking(on bool) {
	m.working = on
	if !on && m.tenure.Draining() {
		m.release()
	}
}

// leaveLeadership ends the leadership of a removed member; a follower only loses
// its leader.
func (m *steward) leaveLeadership(why string) {
	if m.tenure.Leading() {
		m.giveUp(election.CauseRemoved, why, "")
		return
	}
	m.lose(election.CauseRemoved, true, why)
}

// What follows keeps a member from leading next to a cluster that refuses it. Two configurations that
// differ stay so until a user changes either: a member that is missing on a peer's list does not
// lead. A list that came from members differs for a moment only, for which this member asks to be
// admitted. Two secrets keep two sides apart: the larger leads, or of equal sides the side with the
// greatest id.

// refuses takes note of how a member has answered a dial of ours: it refuses us because of why, or (nil)
// it has let us in, or has not answered.
func (m *steward) refuses(i int, why error) {
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
func (m *steward) reviewRefusals() {
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
	if !refused && len(m.refusedBy) > 0 {
		m.note("is refused", m.refusedBy[0], m.tenure.Held(), m.members[m.index[m.refusedBy[0]]].refusal.Error())
	}
}

// resign steps down: this member is no candidate until a later leadership that lasted has ended.
func (m *steward) resign() {
	if !m.tenure.Leading() && !m.tenure.Mine(m.tenure.Next()) {
		return // nothing to give up
	}
	m.pause.Hold(m.now, election.None)
	m.resignUntilAbove(max(m.seen.Highest(), 1))
	m.note("resigns", m.cfg.Self.ID, m.tenure.Held(), "it was asked to")
}

// close gives up leadership for good: this process is about to end, once its work has stopped.
func (m *steward) close() {
	if m.closing {
		return
	}
	m.closing = true
	m.needsNoLastResort()
	m.note("closes", m.cfg.Self.ID, election.Token{}, "")
}

// review acts on this member's eligibility after each step. A member that is no candidate steps down, or
// withdraws its claim; one that cannot save, or is unhealthy in a pause, leads on. A candidate that was
// none at the step before takes part again. After its work has stopped, release begins a contest instead.
func (m *steward) review() {
	if m.tenure.Draining() {
		return
	}
	is := m.eligibility()
	was := m.reviewed(is)
	switch {
	case m.tenure.Leading():
		if is == election.IneligibleUnsaved || is == election.IneligibleUnhealthy && m.pause.On(m.now) {
			is = m.barred() // it leads on
		}
		if is != election.Eligible {
			m.stepDown("it is no candidate: " + string(is))
		}
	case is != election.Eligible:
		if m.tenure.Mine(m.tenure.Next()) { // on its way to the disk: no member has received it
			m.withdraw()
		}
	case was == is || !m.tenure.Started():
	case m.undecided() && was != election.StandsNext:
		why := "no longer " + string(was)
		if m.lastResort {
			why = "no healthy member leads, or is in reach"
		}
		m.note("is a candidate", m.cfg.Self.ID, m.tenure.Held(), why)
		m.discover("others may have found a leader while it was no candidate")
	case was == election.IneligiblePaused && m.mayPreempt(): // by then each member has received that the members are candidates again
		m.alarms.Set(timerHandover, m.now.Add(3*m.cfg.Timing.Heartbeat))
	default:
		m.preempt()
	}
}

// setHealth records the result of this member's own check. An unhealthy member gives up leadership
// and does not claim; with LeadUnhealthy it does if there was no leader for 2·T and no healthy
// member is in reach.
func (m *steward) setHealth(ok bool) {
	if m.unhealthy == !ok {
		return
	}
	if m.unhealthy = !ok; m.lastResort {
		m.declines(m.now) // it was a candidate among the unhealthy only, and they may claim
	}
	m.needsNoLastResort()
	m.alarms.Cancel(timerEligible)
	if m.tenure.Leaderless() {
		m.reconsider() // it may have resigned, too
	}
}

// setCandidacy records whether there is anything to do for this member as a leader. While there is
// nothing it gives up leadership and does not claim, even if no member does.
func (m *steward) setCandidacy(on bool) {
	if m.retired == !on {
		return
	}
	m.retired = !on
	if !on {
		m.note("retires", m.cfg.Self.ID, m.tenure.Held(), "there is nothing to do for it as a leader")
	}
	if m.tenure.Leaderless() {
		m.reconsider() // it may have resigned, too
	}
}

// campaign begins a contest because the user asks for it.
func (m *steward) campaign() {
	m.note("campaigns", m.cfg.Self.ID, m.tenure.Held(), "it was asked to")
	if m.resigned > 0 || m.retired {
		m.resignUntilAbove(0)
		m.retired = false
		m.alarms.Cancel(timerEligible)
		if m.tenure.Leaderless() {
			m.reconsider() // it may be unhealthy, too
		}
		return // it asks first: the members hold a contest without it
	}
	if m.tenure.Started() && m.mode == idle && !m.tenure.Next().Defined() {
		m.step(election.Event{Kind: election.Campaign})
	}
	m.preempt()
}

// What follows hands leadership over to a member by name. The leader steps down and names the heir,
// the transfer target. The heir claims at once, and the rest start no election for T. Then they ask all
// members for the leader, because the heir may have claimed.

// transfer steps down for a single member, if it may.
func (m *steward) transfer(to election.ID) {
	if err := m.AdmitTransfer(to); err != nil {
		m.note("refuses", to, m.tenure.Held(), "to hand over: "+err.Error())
		return
	}
	if to == m.cfg.Self.ID {
		return
	}
	m.pause.Hold(m.now, election.None)
	m.resignUntilAbove(max(m.seen.Highest(), 1))
	m.bequeath(to, m.tenure.Held())
	m.note("transfers", to, m.tenure.Held(), "it was asked to")
	m.stepDown("it hands over to " + string(to))
}

// watchPause notes that a pause has begun or ended, and wakes at its end.
func (m *steward) watchPause() {
	turned, ends := m.pause.Turned(m.now)
	switch {
	case turned && ends.IsZero():
		m.note("resumes", m.cfg.Self.ID, m.tenure.Held(), "the pause has ended")
	case turned:
		m.note("pauses", m.cfg.Self.ID, m.tenure.Held(), "for "+ends.Sub(m.now).Round(time.Millisecond).String())
	}
	if !ends.IsZero() {
		m.alarms.Wake(ends)
	}
}
