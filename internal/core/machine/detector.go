package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/outbox"
)

// watcher finds out which members live, by their messages, relays and reports.
type watcher struct{ steward }

// beaten handles a leader's beat.
func (m *watcher) beaten(from int, msg *election.Message) {
	if msg.Token.Leader.ID != msg.From {
		return // only the leader sends beats
	}
	if m.tenure.Draining() {
		if msg.Token.Above(m.tenure.Held()) {
			m.superseded(msg.Token, true)
			m.send(from, &election.Message{Kind: election.Ack, Token: m.View(), Stamp: msg.Stamp}) // it is received, and followed later
		}
		return
	}
	if msg.Draining && m.givesWay(msg.Token, m.now) && msg.Token != m.tenure.Next() && msg.Token != m.View() {
		if m.tenure.Leading() && msg.Token.Above(m.tenure.Held()) {
			m.accept(msg.Token, from)
		}
		m.send(from, &election.Message{Kind: election.Ack, Token: m.View(), Stamp: msg.Stamp}) // it knows that its time has ended
		return
	}
	if !m.tenure.Live() || msg.Token != m.tenure.Held() {
		m.accept(msg.Token, from)
		if msg.Token != m.tenure.Next() && msg.Token != m.View() {
			return
		}
	}
	m.heardLeader()
	m.tenure.LearnSide(msg.Side, msg.Young)
	m.members[from].epoch = msg.Token.Epoch
	if m.members[from].link {
		m.setState(from, election.StateUp) // the last leader may not have reached it
	}
	m.detector.TakeBeat(m.now, msg.Stamp)
	if msg.States != nil && m.tenure.Live() {
		m.detector.TakeStates(msg.Version)
		for _, s := range msg.States {
			i, ok := m.index[s.ID]
			if !ok || i == m.me || i == from {
				continue
			}
			m.members[i].epoch = s.Epoch
			m.members[i].eligibility = m.members[i].eligibility.Hears(s.Eligibility)
			m.setState(i, s.State)
			if s.State == election.StateUp {
				m.markUp(i) // the leader receives it; a dial will show if that is over
				if m.members[i].refusal == election.ErrForeign {
					m.members[i].refusal = nil // the leader, which has our secret and our settings, is connected to it
				}
			}
		}
	}
	m.acknowledge(from)
}

// pinged returns the member to ping: the watched member, if there is a way to it. Between a leader
// and its followers heartbeats and acknowledgements keep a link alive. Only what needs proof that it
// has arrived needs a ping there.
func (m *watcher) pinged() (i int, ok bool) {
	i, ok = m.index[m.watched]
	if !ok {
		return i, false
	}
	peer := &m.members[i]
	if !peer.link {
		return i, !peer.viaAt.IsZero()
	}
	_, relayed := m.relayTo(i, m.now)
	return i, !m.beatsPass(peer) || relayed || len(peer.Unconfirmed) > 0
}

// ping keeps the link to the watched member alive.
func (m *watcher) ping() {
	i, ok := m.pinged()
	if !ok || m.now.Before(m.nextPing) {
		return
	}
	m.pings(m.now.Add(m.cfg.Timing.Heartbeat))
	if !m.reaches(i, m.now) {
		if !m.members[i].down {
			m.pingIndirectly(i) // its relay has stopped
		}
		return
	}
	m.send(i, &election.Message{Kind: election.Ping, Stamp: int64(m.now.Sub(m.origin))})
}

// hear records that a message of a member has arrived over its connection.
func (m *watcher) hear(i int) {
	m.detector.Receive(m.now)
	m.members[i].heard = m.now
	m.members[i].Received()
	m.markUp(i)
}

// markUp counts a member as up, by its own message or by the leader's report. No member need
// reach it any more.
func (m *watcher) markUp(i int) {
	m.members[i].pingers = nil
	if m.members[i].down {
		m.members[i].down = false
		m.step(election.Event{Kind: election.PeerUp, Peer: m.members[i].ID})
	}
}

// markDown counts a member as down. certain: its process has ended, so that its leadership has too.
func (m *watcher) markDown(i int, cause election.Cause, certain bool, why string) {
	peer := &m.members[i]
	wasDown := peer.down
	if m.eligible(peer) {
		m.candidateDied(m.now)
	}
	peer.down = true
	peer.resets()
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
	if peer.askedAt.Equal(asked) { // else the contest has ended with that, and all are asked again
		m.unanswered(i)
	}
	switch id := peer.ID; {
	case m.tenure.LedBy(id):
		m.loseLeader(cause, certain, why)
	case m.tenure.Next().Leader.ID == id:
		m.abandon("its leader was lost before it was saved")
	case m.tenure.Held().Leader.ID == id && certain:
		m.tenure.EndIsCertain()
	}
}

func (m *watcher) watchFollowers() {
	if !m.now.Before(m.detector.BeatAt()) {
		m.beatAll()
	}
	if m.tenure.Leading() && m.detector.Unheard(m.now) && !m.relinking() {
		m.claimsOnlyAnswered()
		m.giveUp(election.CauseSilent, "it receives from members, but none has acknowledged for "+bears(m.cfg.Timing), "no member acknowledges it")
	}
}

func (m *watcher) watchLeader() {
	leader := m.index[m.tenure.Held().Leader.ID]
	if m.detector.AckDue(m.now) && m.members[leader].link {
		m.acknowledge(leader)
	}
	if voucher, due := m.detector.Renew(m.now); due {
		if i, ok := m.index[voucher]; ok {
			m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()})
		}
	}
	if !m.detector.Suspected() && !m.now.Before(m.detector.SilentAt()) && !m.members[leader].firstDial() {
		m.suspect()
	}
}

// suspect asks all members before a silent leader counts as down.
func (m *watcher) suspect() {
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
		m.unvouched("there is no member to ask")
	}
}

// unvouched: the suspected leader counts as down.
func (m *watcher) unvouched(why string) {
	m.endSuspicion()
	i := m.index[m.tenure.Held().Leader.ID]
	switch peer := &m.members[i]; {
	case peer.link && peer.heard.After(m.inquired):
		m.loseLeader(election.CauseSilent, false, why) // it was received since, and lost leadership
		return
	case peer.link:
		m.hangUp(i)
	}
	m.markDown(i, election.CauseSilent, false, why)
}

// resumeAfterStall wakes from a stall: leadership is lost before anything is sent, and silence is
// counted from now, because it was we that did not listen.
func (m *watcher) resumeAfterStall(last time.Time) {
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

// unanswered gives up waiting for a member's reply.
func (m *watcher) unanswered(i int) {
	if !m.members[i].awaited {
		return
	}
	m.members[i].awaited = false
	if m.mode == asks && !m.outranked() {
		m.probeNext()
	}
	m.endIfAllReplied()
}

// endIfAllReplied ends the discovery, or the suspicion, that has no answer left to wait for.
func (m *watcher) endIfAllReplied() {
	m.endDiscoveryIfAllReplied()
	if m.detector.Suspected() && !m.anyAwaited() {
		m.unvouched("no member confirms it")
	}
}

// probeReplied takes in what a member knows.
func (m *watcher) probeReplied(from int, msg *election.Message) {
	peer := m.members[from].ID
	m.answered(true)
	itself := msg.Token.Leader.ID == peer && !msg.Ended && !m.byRelay
	late := m.tooLate(msg) && msg.Token.Leader.ID != peer
	fresh := itself || !late && !msg.Ended && msg.Age >= 0 && msg.Age < m.cfg.Timing.Bears()
	known := m.Knows(msg.Token.Leader.ID) && !m.tenure.Past(msg.Token, itself, m.now, m.farT())
	switch c := msg.Token.Compare(m.tenure.Held()); {
	case c > 0 && m.tenure.Live() && m.tenure.Next().Above(msg.Token):
		// The present leadership goes on above it, as soon as that is on disk.
	case c > 0 && known && (fresh || msg.Follows) && m.outweighs(msg.Token):
		m.goOn(msg.Token, from)
	case c > 0 && m.tenure.Beats():
		m.superseded(msg.Token, known && (fresh || msg.Follows) && !m.tenure.Mine(msg.Token))
	case c == 0 && m.tenure.Leading() && msg.Ended && m.seen.MayRaise(&m.disk) && !m.cfg.NoDetector:
		m.renew(m.tenure.Held(), string(peer)+" has taken it for ended")
	case c == 0 && m.tenure.Leading() && msg.Ended:
		m.superseded(msg.Token, false)
	case (c == 0 && m.tenure.Live() || m.tenure.Continues(msg)) && msg.Ended && msg.Token.Leader.ID == peer:
		m.leaderEnds(msg, "it replied that it has ended")
	case !fresh || !known || m.tenure.Mine(msg.Token):
	case c < 0:
		m.outbid(msg.Token, m.me)
	case c == 0 && m.tenure.Certain() && m.byRelay && msg.Token.Leader.ID == peer:
		m.replyToProbe(peer) // as to its beats: to us it has ended, and it claims above that
	case itself:
		m.accept(msg.Token, from)
	case c == 0 && m.tenure.Live():
		m.vouched(peer, msg.Age)
	case m.givesWay(msg.Token, m.now):
	case (c > 0 || c == 0 && !m.tenure.Certain()) && msg.Token.Above(m.tenure.Next()):
		m.adopt(msg.Token, string(peer)+" confirms it", time.Time{}, m.now.Add(m.cfg.Timing.Bears()-msg.Age))
	}
	if _, listed := m.Entry(msg.Token.Leader.ID); !listed && fresh && m.mode == asks && msg.Token.Above(m.tenure.Held()) {
		m.members[from].reports = msg.Token.Leader.ID // its list, which is requested, names that leader
		return
	}
	if m.answers(msg) && (!late || msg.Age < 0) { // else the answer is still to come
		m.members[from].replied = true
		m.unanswered(from)
	}
}

// replaced: a new process has a member's id. It owes the answer that the old process was asked for,
// and does not know what that process knew.
func (m *watcher) replaced(i int) {
	peer := &m.members[i]
	owed := peer.awaited
	peer.link = false // the link was the old process's
	peer.awaited, peer.replied = false, false
	if !m.hearsay(peer.ID) {
		m.replacing = m.tenure.Leaderless() // the election goes on with the new process, not without the old process
		m.markDown(i, election.CauseCrashed, true, "another incarnation answers")
		m.replacing = false
	}
	if owed && m.detector.Suspected() {
		m.probe(i)
	}
}

// hangUpSilent closes every link on which nothing came for T: temporary links that have served
// (docs/sources.md, "Scrapper"), and, when silence is no longer tolerated, links whose far end may
// be gone.
func (m *watcher) hangUpSilent() {
	m.others(func(i int, peer *member) {
		if !peer.link || m.now.Before(m.silent(peer)) {
			return
		}
		m.hangUp(i)
		switch {
		case peer.ID == m.watched && !m.tenure.LedBy(m.members[i].ID) && !peer.down:
			m.pingIndirectly(i)
		case m.tenure.Beats() && peer.state != election.StateDown:
			m.setState(i, election.StateUnreachable)
		}
	})
}

// linkDown dials again at once: a refusal proves that the process is gone.
func (m *watcher) linkDown(id election.ID) {
	i, ok := m.index[id]
	if !ok || !m.members[i].link {
		return
	}
	peer := &m.members[i]
	peer.link, peer.anew = false, true
	peer.redial = m.now
	m.alarms.Wake(peer.redial)
	peer.proof.settle()
	lost := peer.Unconfirmed
	if peer.awaited && !slices.ContainsFunc(lost, outbox.IsQuestion) {
		m.probe(i) // it received something older, or sent something newer, and the question may be lost
	}
	m.repeat(i, lost)
}

// vouched ends the suspicion: by received the leader age ago.
func (m *watcher) vouched(by election.ID, age time.Duration) {
	if renew := m.detector.Vouch(m.now, by, age, m.answerTime(m.index[by], m.now)); !renew.IsZero() {
		m.alarms.Wake(renew)
	}
	if !m.detector.Suspected() {
		return
	}
	m.restsOnNoAnswer()
	leader := m.tenure.Held().Leader.ID
	m.note("no longer suspects", leader, m.tenure.Held(), string(by)+" received from it "+age.Round(time.Millisecond).String()+" ago")
	m.endSuspicion()
	m.setState(m.index[leader], election.StateUnreachable)
	m.alarms.Wake(m.detector.Spared())
}

// wakeForDetector adds what the detector will have due to the deadline.
func (m *watcher) wakeForDetector() {
	for i := range m.members {
		switch peer := &m.members[i]; {
		case i == m.me:
		case peer.link:
			m.alarms.Wake(m.silent(peer))
		case m.shouldDial(i):
			at := peer.redial
			if !m.now.Before(at) {
				at = m.now.Add(m.cfg.Timing.Heartbeat) // there was no room for it now
			}
			m.alarms.Wake(at)
		}
	}
	if _, ok := m.pinged(); ok {
		m.alarms.Wake(m.nextPing)
	}
	m.wakeForOthersWork()
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
