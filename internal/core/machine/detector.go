package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// detector says which members are down; it may be wrong. It is a star, as in
// docs/sources.md, "Scrapper": the leader beats to every member and each acknowledges; members do
// not beat to each other.
type detector struct {
	// A follower's side.
	leaderAt     time.Time   // when the leader itself was last heard; zero: not in this leadership
	vouchedUntil time.Time   // until then others vouch for it
	voucher      election.ID // who does, of them
	renewAt      time.Time   // when to ask that one again; zero: there is no need
	suspected    bool        // vouchers are being asked
	excusedUntil time.Time   // until then silence may be our own: what has come in waits to be read

	// A leader's side.
	heardAt time.Time // when anyone was last heard
	resumed time.Time // when it last woke from a stall
	ackedAt time.Time // when the newest acknowledged beat had left
}

// heardLeaderAt begins with a leader: when it was heard itself (zero: by others alone), and
// until when they vouch for it.
func (d *detector) heardLeaderAt(heard, vouchedUntil time.Time) {
	d.leaderAt, d.vouchedUntil = heard, vouchedUntil
}

// countAcksFrom says that no acknowledgement was due before at, or that one came of a
// beat that left then.
func (d *detector) countAcksFrom(at time.Time) { d.ackedAt = at }

func (m *Machine) isLeader(i int) bool {
	return m.live() && m.view.Leader.ID == m.members[i].ID
}

// hear takes note that a member lives and that we hear it.
func (m *Machine) hear(i int) {
	if m.now.Sub(m.heardAt) > m.cfg.Timing.T() {
		m.ackedAt = m.now // we were alone: only now is there someone to acknowledge
	}
	m.heardAt = m.now
	m.members[i].heard = m.now
	m.members[i].heardAnything()
	m.markUp(i)
}

// markUp: a member lives, by what it says or the leader does: whoever was asked to reach it
// need not any more.
func (m *Machine) markUp(i int) {
	m.members[i].pingers = nil
	if m.members[i].down {
		m.members[i].down = false
		m.step(election.Event{Kind: election.PeerUp, Peer: m.members[i].ID})
	}
}

// markDown counts a member as down. certain says that its process has ended,
// so that its leadership has too.
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
	case m.live() && m.view.Leader.ID == id:
		m.loseLeader(cause, certain, why)
	case m.next.Leader.ID == id:
		m.abandon("its leader is gone before it was saved")
	case m.view.Leader.ID == id && certain:
		m.endIsCertain()
	}
}

// heardLeader takes note that the leader itself was heard.
func (m *Machine) heardLeader() {
	m.leaderAt = m.now
	m.restsOnNoAnswer()
	if m.suspected {
		m.endSuspicion()
	}
}

// greetedBy takes note that a link to a member stands: its process lives. When that
// is the leader, its first beat on this link may come T later.
func (m *Machine) greetedBy(i int) {
	if beat := m.now.Add(m.cfg.Timing.T()); m.isLeader(i) && beat.After(m.vouchedUntil) {
		m.vouchedUntil = beat
	}
}

// leaderAge is how long ago the leader itself was heard; 0 when that is this
// member, negative when it is not within memory.
func (m *Machine) leaderAge() time.Duration {
	switch {
	case m.beats():
		return 0
	case !m.live() || m.leaderAt.IsZero():
		return -1
	}
	return m.now.Sub(m.leaderAt)
}

// silentAt is when the leader has been silent for as long as is borne, or nobody vouches any more.
func (m *Machine) silentAt() time.Time {
	at := m.leaderAt.Add(m.cfg.Timing.Bears())
	if m.vouchedUntil.After(at) {
		at = m.vouchedUntil
	}
	return m.excused(at)
}

// oversleeps takes note that this process was stopped for less than T: its timer came
// late by that much, or more. What members have said meanwhile waits to be read, so
// nobody counts as silent before there was as much time again, a heartbeat at most.
// Lateness below half a heartbeat is the noise of any machine.
func (m *Machine) oversleeps() {
	late := m.now.Sub(m.deadline)
	if m.deadline.IsZero() || late <= m.cfg.Timing.Heartbeat/2 {
		return
	}
	if until := m.now.Add(min(late, m.cfg.Timing.Heartbeat)); until.After(m.excusedUntil) {
		m.excusedUntil = until
	}
}

// excused puts off the moment from which a silence counts, by T at most: a machine
// that is always late still finds out, within 2·T.
func (m *Machine) excused(at time.Time) time.Time {
	if !m.excusedUntil.After(at) {
		return at
	}
	if latest := at.Add(m.cfg.Timing.T()); m.excusedUntil.After(latest) {
		return latest
	}
	return m.excusedUntil
}

// watch does what the detector has due by now.
func (m *Machine) watch() {
	m.hangUpSilent()
	if m.beats() {
		m.watchFollowers()
	} else if m.live() {
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
	if !m.now.Before(m.nextBeat) {
		m.beatAll()
	}
	// "Beats are acknowledged": who hears members but is not heard steps down;
	// who hears nobody leads its group of one.
	hears := m.now.Sub(m.heardAt) <= m.cfg.Timing.T()
	if m.leading() && hears && !m.relinking() && m.now.After(m.excused(m.ackedAt.Add(m.ackTime()))) {
		m.claimsOnlyAnswered()
		m.giveUp(election.CauseSilent, "it hears members, but nobody has acknowledged for "+m.bears(), "nobody hears it")
	}
}

func (m *Machine) watchLeader() {
	if !m.nextAck.IsZero() && !m.now.Before(m.nextAck) {
		m.ackNoLaterThan(m.now.Add(m.cfg.Timing.Heartbeat))
		if i := m.index[m.view.Leader.ID]; m.members[i].link {
			m.acknowledge(i) // an old stamp: "I live, but I do not hear you"
		}
	}
	if !m.renewAt.IsZero() && !m.now.Before(m.renewAt) {
		m.renew()
	}
	if !m.suspected && !m.now.Before(m.silentAt()) && !m.firstDial(m.index[m.view.Leader.ID]) {
		m.suspect()
	}
}

// renew asks the voucher again while its word still holds, so that the answer is
// here in time: a silent leader is suspected once, not again and again.
func (m *Machine) renew() {
	m.renewAt = time.Time{}
	i, ok := m.index[m.voucher]
	if ok && !m.suspected && m.vouchedUntil.After(m.leaderAt.Add(m.cfg.Timing.Bears())) {
		m.send(i, election.Message{Kind: election.Probe, Token: m.view})
	}
}

// forgetVoucher: another leads now.
func (d *detector) forgetVoucher() { d.renewAt = time.Time{} }

// suspect asks the others before a silent leader counts as down.
func (m *Machine) suspect() {
	m.suspected = true
	m.note("suspects", m.view.Leader.ID, m.view, "silent for "+m.quiet())
	m.awaitNobody()
	m.inquires(m.now)
	m.others(func(i int, peer *member) {
		if peer.ID != m.view.Leader.ID && (!peer.down || m.mayBeBack(peer)) {
			m.probe(i)
		}
	})
	m.set(timerVouch, m.longestAnswer())
	if !m.anyAwaited() {
		m.unvouched("there is nobody to ask")
	}
}

// mayBeBack reports whether one that counts as down was found so long ago: followers do not
// dial each other.
func (m *Machine) mayBeBack(peer *member) bool {
	return peer.down && m.now.Sub(peer.missed) > m.cfg.Timing.T()
}

// higherMissed reports whether that is so of a higher member.
func (m *Machine) higherMissed() bool {
	for i := m.me + 1; i < len(m.members); i++ {
		if m.mayBeBack(&m.members[i]) {
			return true
		}
	}
	return false
}

// bears says in a trace how long silence is borne.
func (m *Machine) bears() string {
	if m.cfg.Timing.Silence == 0 {
		return "T"
	}
	return m.cfg.Timing.Silence.String()
}

// quiet says for how long the leader has been silent.
func (m *Machine) quiet() string {
	if m.leaderAt.IsZero() {
		return "all its time"
	}
	return m.now.Sub(m.leaderAt).Round(time.Millisecond).String()
}

// vouched puts the suspicion off until the voucher's own hearing is as old as is borne.
func (m *Machine) vouched(by election.ID, age time.Duration) {
	if until := m.now.Add(m.cfg.Timing.Bears() - age); until.After(m.vouchedUntil) {
		m.vouchedUntil, m.voucher = until, by
		m.renewAt = until.Add(-m.answerTime(m.index[by]))
		if soon := m.now.Add(m.cfg.Timing.Heartbeat); m.renewAt.Before(soon) {
			m.renewAt = soon
		}
		m.wake(m.renewAt)
	}
	if !m.suspected {
		return
	}
	m.restsOnNoAnswer()
	leader := m.view.Leader.ID
	m.note("spares", leader, m.view, string(by)+" heard it "+age.Round(time.Millisecond).String()+" ago")
	m.endSuspicion()
	m.setState(m.index[leader], election.StateUnreachable)
	m.wake(m.vouchedUntil)
}

// unvouched: the suspected leader counts as down.
func (m *Machine) unvouched(why string) {
	if !m.suspected {
		return
	}
	m.endSuspicion()
	i := m.index[m.view.Leader.ID]
	if m.members[i].link {
		m.hangUp(i)
	}
	m.markDown(i, election.CauseSilent, false, why)
}

// Spared is until when others' words spare a leader that is silent; for the lab.
func (m *Machine) Spared() time.Time { return m.vouchedUntil }

func (m *Machine) endSuspicion() {
	if m.suspected {
		m.suspected = false
		m.cancel(timerVouch)
		m.awaitNobody()
	}
}

// wakeForDetector adds what the detector will have due to the deadline.
func (m *Machine) wakeForDetector() {
	for i := range m.members {
		switch peer := &m.members[i]; {
		case i == m.me:
		case peer.link:
			m.wake(m.silent(peer))
			if peer.differs {
				m.wake(m.pullAt(peer))
			}
		case m.shouldDial(i):
			at := peer.redial
			if soon := m.now.Add(m.cfg.Timing.Heartbeat); at.Before(soon) && !m.now.Before(at) {
				at = soon // there was no room for it now
			}
			m.wake(at)
		}
	}
	if i, ok := m.index[m.watched]; ok && (m.members[i].link || !m.members[i].viaAt.IsZero()) {
		m.wake(m.nextPing)
	}
	m.wakeForDraining()
	m.wakeForNotice()
	switch {
	case m.beats():
		m.wake(m.nextBeat)
	case m.live():
		if !m.renewAt.IsZero() {
			m.wake(m.renewAt)
		}
		if !m.suspected && !m.firstDial(m.index[m.view.Leader.ID]) {
			m.wake(m.silentAt())
		}
		if !m.nextAck.IsZero() {
			m.wake(m.nextAck)
		}
	}
}

// stalled reports whether this process, stepped last at last, was stopped until now for longer
// than others bear: a leader steps at every beat, anyone else at its deadline.
func (m *Machine) stalled(last, now time.Time) bool {
	if m.cfg.NoDetector {
		return false
	}
	bears := m.cfg.Timing.Bears()
	if m.beats() {
		return now.Sub(last) > bears
	}
	return !m.deadline.IsZero() && now.Sub(m.deadline) > bears-m.cfg.Timing.Heartbeat
}

// resumeAfterStall wakes from a stall: the lead is lost before anything is sent, and
// silence is counted afresh, for it was we who did not listen.
func (m *Machine) resumeAfterStall(last time.Time) {
	m.note("stalled", m.cfg.Self.ID, m.view, "for "+m.now.Sub(last).Round(time.Millisecond).String())
	for i := range m.members {
		if m.members[i].link {
			m.members[i].heard = m.now
		}
	}
	m.heardAt, m.ackedAt, m.resumed = m.now, m.now, m.now
	m.extend(timerHung, m.cfg.Timing.T())
	m.endSuspicion()
	if m.leading() {
		m.giveUp(election.CauseStalled, "this process was stopped for longer than "+m.bears(), "it was stopped")
		return
	}
	if m.draining() {
		m.doubt("it was stopped") // the others may have given it up
		return
	}
	if m.live() {
		m.vouchedUntil = m.now.Add(m.cfg.Timing.Bears()) // not leaderAt: others rely on our own hearing
		m.ackNoLaterThan(m.now)
		m.wake(m.silentAt())
		return
	}
	if m.isMine(m.next) {
		m.drop()
	}
	if !m.next.Defined() {
		m.discover("it was stopped")
	}
}
