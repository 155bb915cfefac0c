package machine

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/tenure"
)

// This file gives the lead away: at once as this member sees it, and as the members see it when its
// work has stopped; and asks a lower leader for it.

// handover is what is left of leaderships that end.
type handover struct {
	working bool   // user work of a leadership of ours still runs
	doubts  string // why we ask then before we stand again; empty: we need not
}

// doubt records why this member asks for a leader before it is a candidate again; empty: it need
// not.
func (h *handover) doubt(why string) { h.doubts = why }

// stepDown gives the lead away.
func (m *Machine) stepDown(why string) { m.giveUp(election.CauseResigned, why, "") }

// giveUp ends our leadership: at once as we see it, as the members see it when the work has
// stopped. Until then we keep beating, so that no member begins. With doubts, a different member
// may lead by then: we ask.
func (m *Machine) giveUp(cause election.Cause, why, doubts string) {
	if m.place != onList {
		m.maintenance.Hold(m.now, election.None) // the holder leaves the cluster
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
func (m *Machine) release() {
	m.tenure.Drained(m.phaseWithoutLeader())
	m.contestBegins() // what the others said while they followed is old
	m.reconsider()
	heir := m.heir
	if m.doubts != "" || !m.fit(heir) { // a different member may lead: a candidate asks before it claims
		heir = election.None
	}
	over := election.Message{Kind: election.Resign, Token: m.tenure.Held(), Heir: heir, Follows: m.doubts != ""}
	m.others(func(i int, peer *member) {
		if m.reaches(i, m.now) || peer.dialing || m.cfg.NoDetector && !peer.down { // what announced it may be on its way behind a dial
			m.send(i, over)
		}
	})
	m.leaveTo(heir, m.tenure.Held())
	m.discoverInDoubt()
	if m.undecided() && m.place == onList {
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	}
}

// discoverInDoubt asks what has become of the lead since it was lost.
func (m *Machine) discoverInDoubt() {
	why := m.doubts
	m.doubts = ""
	if why != "" && m.place == onList {
		m.discover(why)
	}
}

// leaderResigned handles the end of a leadership.
func (m *Machine) leaderResigned(from int, msg *election.Message) {
	if msg.Token.Leader.ID != msg.From {
		return
	}
	if msg.Token == m.tenure.Next() && !m.tenure.Live() {
		m.abandon("its leader has resigned before it was saved")
		return
	}
	held := msg.Token == m.tenure.Held() || m.tenure.Continues(msg)
	if held || m.tenure.Leaderless() {
		m.leaveTo(msg.Heir, msg.Token)
	}
	switch {
	case held && m.tenure.Live():
		m.leaderEnds(msg, "it says so")
	case held:
		m.tenure.EndIsCertain()
	case !m.cfg.NoDetector:
		m.tenure.Announced(msg.Token, m.now) // late, or never followed
	}
}

// leaderEnds handles the leader's own report that its leadership is over. A leader that reports so
// in a different message, or that a different member may lead, or that knows of a higher epoch, may
// have given way to a leader that we do not know: we ask before we claim.
func (m *Machine) leaderEnds(msg *election.Message, why string) {
	if msg.Token != m.tenure.Held() { // a higher epoch of the leadership that is followed
		m.tenure.Announced(msg.Token, m.now)
	}
	another := msg.Kind == election.ProbeReply || msg.Follows || msg.Highest > msg.Token.Epoch
	if another && m.heir == election.None && m.mode == idle && !m.cfg.NoDetector {
		m.lose(election.CauseResigned, true, why)
		m.discover("another may lead")
		return
	}
	m.loseLeader(election.CauseResigned, true, why)
}

// handOver asks of us, the leader, to make way for a higher rank.
func (m *Machine) handOver(from int, msg *election.Message) {
	peer := &m.members[from]
	switch {
	case m.tenure.Draining() && msg.Token == m.tenure.Held():
		// Under way: it receives Resign when the work has stopped.
	case !m.tenure.Leading() || msg.Token != m.tenure.Held():
		m.replyToProbe(peer.ID)
	case m.cfg.NoPreempt || m.maintenance.On(m.now) || peer.eligibility != election.Eligible || !peer.Above(m.cfg.Self):
		m.note("refuses", peer.ID, m.tenure.Held(), "to hand over: it may not preempt")
	default:
		m.stepDown("it hands over to " + string(peer.ID))
	}
}

// preempt asks a leader of lower rank to hand over, again and again until it
// does or is down. A member that returns takes over so (docs/sources.md, all but "Scrapper"),
// but not before the old leader's work has stopped.
func (m *Machine) preempt() {
	if !m.mayPreempt() {
		return
	}
	m.note("asks", m.tenure.Held().Leader.ID, m.tenure.Held(), "to hand over: it outranks the leader")
	m.send(m.index[m.tenure.Held().Leader.ID], election.Message{Kind: election.Handover, Token: m.tenure.Held()})
	m.alarms.Set(timerHandover, m.now.Add(m.answerTime(m.index[m.tenure.Held().Leader.ID], m.now)+m.cfg.Timing.TProcess))
}

func (m *Machine) mayPreempt() bool {
	return !m.cfg.NoPreempt && m.tenure.Live() && m.Standing() == election.Eligible && m.cfg.Self.Above(m.rankOf(m.tenure.Held().Leader))
}

// setWorking records the driver's report that a leadership's work has begun or stopped.
func (m *Machine) setWorking(on bool) {
	m.working = on
	if on {
		return
	}
	if m.tenure.Draining() {
		m.release()
		return
	}
	m.standAgain("its work has stopped")
}
