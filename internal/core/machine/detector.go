package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// hear records that a message of a member has arrived over its connection.
func (m *Machine) hear(i int) {
	m.detector.Receive(m.now)
	m.members[i].heard = m.now
	m.members[i].heardAnything()
	m.markUp(i)
}

// markUp counts a member as up, by its own message or by the leader's report. No member need
// reach it any more.
func (m *Machine) markUp(i int) {
	m.members[i].pingers = nil
	if m.members[i].down {
		m.members[i].down = false
		m.step(election.Event{Kind: election.PeerUp, Peer: m.members[i].ID})
	}
}

// markDown counts a member as down. certain: its process has ended, so that its leadership has too.
func (m *Machine) markDown(i int, cause election.Cause, certain bool, why string) {
	peer := &m.members[i]
	wasDown := peer.down
	peer.down, peer.eligibility, peer.draining = true, peer.Eligibility(), false
	if certain {
		peer.askedAt = time.Time{}
		m.setState(i, election.StateDown)
	} else {
		m.setState(i, election.StateUnreachable)
	}
	asked := peer.askedAt
	if !wasDown {
		m.note("finds down", peer.ID, election.Token{}, why)
		m.step(election.Event{Kind: election.PeerDown, Peer: peer.ID})
	}
	if peer.askedAt.Equal(asked) { // else the contest has ended with that, and all are asked anew
		m.unanswered(i)
	}
	switch id := peer.ID; {
	case m.tenure.LedBy(id):
		m.loseLeader(cause, certain, why)
	case m.tenure.Next().Leader.ID == id:
		m.abandon("its leader is gone before it was saved")
	case m.tenure.Held().Leader.ID == id && certain:
		m.tenure.EndIsCertain()
	}
}

// heardLeader notes that a message of the leader itself has arrived.
func (m *Machine) heardLeader() {
	m.detector.ReceiveLeader(m.now)
	m.restsOnNoAnswer()
	m.endSuspicion()
}

// leaderAge is the time since the leader itself was received: 0 for this member, negative
// when it was not in this leadership.
func (m *Machine) leaderAge() time.Duration {
	switch {
	case m.tenure.Beats():
		return 0
	case !m.tenure.Live():
		return -1
	}
	return m.detector.Age(m.now)
}

// watch does what the detector has due by now.
func (m *Machine) watch() {
	m.hangUpSilent()
	if m.tenure.Beats() {
		m.watchFollowers()
	} else if m.tenure.Live() {
		m.watchLeader()
	}
	m.ping()
	m.watchRelays()
	m.dialAll()
	m.notifyRemoved()
	m.others(func(i int, peer *member) {
		if peer.differs {
			m.pull(i)
		}
	})
}

func (m *Machine) watchFollowers() {
	if !m.now.Before(m.detector.BeatAt()) {
		m.beatAll()
	}
	if m.tenure.Leading() && m.detector.Unheard(m.now) && !m.relinking() {
		m.claimsOnlyAnswered()
		m.giveUp(election.CauseSilent, "it hears members, but nobody has acknowledged for "+bears(m.cfg.Timing), "nobody hears it")
	}
	if m.tenure.Leading() && m.tooFew() {
		m.finds(true)
		m.stepDown("it receives too few members")
	}
}

func (m *Machine) watchLeader() {
	leader := m.index[m.tenure.Held().Leader.ID]
	if m.detector.AckDue(m.now) && m.members[leader].link {
		m.acknowledge(leader)
	}
	if voucher, due := m.detector.Renew(m.now); due {
		if i, ok := m.index[voucher]; ok {
			m.send(i, election.Message{Kind: election.Probe, Token: m.tenure.Held()})
		}
	}
	if !m.detector.Suspected() && !m.now.Before(m.detector.SilentAt()) && !m.members[leader].firstDial() {
		m.suspect()
	}
}

// suspect asks all members before a silent leader counts as down.
func (m *Machine) suspect() {
	silence := "all its time"
	if !m.detector.Reported() {
		silence = m.detector.Age(m.now).Round(time.Millisecond).String()
	}
	m.detector.Suspect()
	m.note("suspects", m.tenure.Held().Leader.ID, m.tenure.Held(), "silent for "+silence)
	m.awaitNobody()
	m.inquires(m.now)
	m.others(func(i int, peer *member) {
		if peer.ID != m.tenure.Held().Leader.ID && (!peer.down || peer.mayBeBack(m.now, m.cfg.Timing.T())) {
			m.probe(i)
		}
	})
	m.alarms.Set(timerVouch, m.now.Add(m.longestAnswer(m.now)))
	if !m.anyAwaited() {
		m.unvouched("there is nobody to ask")
	}
}

// mayBeBack reports whether a member was last found down more than T ago: followers do not dial
// each other.
func (peer *member) mayBeBack(now time.Time, t time.Duration) bool {
	return peer.down && now.Sub(peer.missed) > t
}

// higherMissed reports whether that is so of a higher member.
func (r *roll) higherMissed(now time.Time) bool {
	for i := r.me + 1; i < len(r.members); i++ {
		if r.members[i].mayBeBack(now, r.timing.T()) {
			return true
		}
	}
	return false
}

// bears adds to a trace how long silence is tolerated.
func bears(t election.Timing) string {
	if t.Silence == 0 {
		return "T"
	}
	return t.Silence.String()
}

// vouched ends the suspicion: by received the leader age ago.
func (m *Machine) vouched(by election.ID, age time.Duration) {
	if renew := m.detector.Vouch(m.now, by, age, m.answerTime(m.index[by], m.now)); !renew.IsZero() {
		m.alarms.Wake(renew)
	}
	if !m.detector.Suspected() {
		return
	}
	m.restsOnNoAnswer()
	leader := m.tenure.Held().Leader.ID
	m.note("spares", leader, m.tenure.Held(), string(by)+" heard it "+age.Round(time.Millisecond).String()+" ago")
	m.endSuspicion()
	m.setState(m.index[leader], election.StateUnreachable)
	m.alarms.Wake(m.detector.Spared())
}

// unvouched: the suspected leader counts as down.
func (m *Machine) unvouched(why string) {
	if !m.endSuspicion() {
		return
	}
	i := m.index[m.tenure.Held().Leader.ID]
	switch peer := &m.members[i]; {
	case peer.link && peer.heard.After(m.inquired):
		m.loseLeader(election.CauseSilent, false, why) // it was received since, and leads no more
		return
	case peer.link:
		m.hangUp(i)
	}
	m.markDown(i, election.CauseSilent, false, why)
}

// Spared is until when reports of members spare a silent leader; for the lab.
func (m *Machine) Spared() time.Time { return m.detector.Spared() }

func (m *Machine) endSuspicion() (was bool) {
	if was = m.detector.Acquit(); was {
		m.alarms.Cancel(timerVouch)
		m.awaitNobody()
	}
	return was
}

// wakeForDetector adds what the detector will have due to the deadline.
func (m *Machine) wakeForDetector() {
	for i := range m.members {
		switch peer := &m.members[i]; {
		case i == m.me:
		case peer.link:
			m.alarms.Wake(m.silent(peer))
			if peer.differs {
				m.alarms.Wake(later(peer.nextPull, m.nextPull))
			}
		case m.shouldDial(i):
			at := peer.redial
			if soon := m.now.Add(m.cfg.Timing.Heartbeat); at.Before(soon) && !m.now.Before(at) {
				at = soon // there was no room for it now
			}
			m.alarms.Wake(at)
		}
	}
	if i, ok := m.index[m.watched]; ok && (m.members[i].link || !m.members[i].viaAt.IsZero()) {
		m.alarms.Wake(m.nextPing)
	}
	m.wakeForDraining()
	if at := m.noticeDue(m.tenure.Leading(), m.now.Add(m.cfg.Timing.Heartbeat)); !at.IsZero() {
		m.alarms.Wake(at)
	}
	switch {
	case m.tenure.Beats():
		m.alarms.Wake(m.detector.BeatAt())
	case m.tenure.Live():
		if at := m.detector.RenewAt(); !at.IsZero() {
			m.alarms.Wake(at)
		}
		if !m.detector.Suspected() && !m.members[m.index[m.tenure.Held().Leader.ID]].firstDial() {
			m.alarms.Wake(m.detector.SilentAt())
		}
		if at := m.detector.AckAt(); !at.IsZero() {
			m.alarms.Wake(at)
		}
	}
}

// resumeAfterStall wakes from a stall: the lead is lost before anything is sent, and silence is
// counted from now, because it was we that did not listen.
func (m *Machine) resumeAfterStall(last time.Time) {
	m.note("stalled", m.cfg.Self.ID, m.tenure.Held(), "for "+m.now.Sub(last).Round(time.Millisecond).String())
	for i := range m.members {
		if m.members[i].link {
			m.members[i].heard = m.now
		}
	}
	m.detector.Resume(m.now)
	m.alarms.Extend(timerHung, m.now.Add(m.cfg.Timing.T()))
	m.endSuspicion()
	if m.tenure.Leading() {
		m.giveUp(election.CauseStalled, "this process was stopped for longer than "+bears(m.cfg.Timing), "it was stopped")
		return
	}
	if m.tenure.Draining() {
		m.doubt("it was stopped") // the members may have given it up
		return
	}
	if m.tenure.Live() {
		m.detector.ResumeFollowing(m.now)
		m.alarms.Wake(m.detector.SilentAt())
		return
	}
	if m.tenure.Mine(m.tenure.Next()) {
		m.drop()
	}
	if !m.tenure.Next().Defined() {
		m.discover("it was stopped")
	}
}
