package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps a leadership known while it lasts: the leader's beats, the members'
// acknowledgements, and the pings of members that the algorithm watches.

// beating is what a leader and its followers keep of the beats between them.
type beating struct {
	// The member that the algorithm has us watch besides the leader.
	watched  election.ID
	nextPing time.Time

	// A leader's side.
	states  []election.MemberReport
	stateOf uint64 // the version that states shows
}

// takeLead begins to lead.
func (m *Machine) takeLead() {
	m.detector.Lead(m.now)
	m.statesChanged()
	for i := range m.members {
		peer := &m.members[i]
		peer.version = 0
		if peer.backoff == 0 {
			peer.redial = m.now // a member that the announcement misses receives it when it links
		}
		if peer.link {
			m.setState(i, election.StateUp) // our own link counts, not the last leader's report
		}
	}
	if m.cfg.NoDetector {
		return
	}
	m.detector.Beat(m.now)
	m.alarms.Wake(m.now)
}

// newBeat makes a beat that serves every member.
func (m *Machine) newBeat(withStates bool) *election.Message {
	msg := &election.Message{
		Kind: election.Beat, From: m.cfg.Self.ID, Election: m.cfg.Election, Token: m.tenure.Held(),
		Stamp: int64(m.now.Sub(m.origin)), Version: m.version,
	}
	m.saysNow(msg)
	if withStates {
		if m.stateOf != m.version || m.states == nil {
			m.states = make([]election.MemberReport, len(m.members))
			for i, e := range m.members {
				m.states[i] = election.MemberReport{ID: e.ID, State: e.state, Epoch: e.epoch, Eligibility: e.toldEligibility()}
			}
			m.states[m.me].Epoch = m.tenure.Held().Epoch
			m.stateOf = m.version
		}
		msg.States = m.states
	}
	return msg
}

// beatAll beats to every member that a link stands to.
func (m *Machine) beatAll() {
	m.forgetStrangers()
	m.spreadMeta(m.metas.Queued())
	var plain, full *election.Message
	m.others(func(i int, peer *member) {
		if !peer.link {
			return
		}
		msg := &plain
		withStates := peer.version != m.version
		if withStates {
			msg = &full
		}
		if *msg == nil {
			*msg = m.newBeat(withStates)
		}
		m.post(i, *msg)
	})
	m.detector.Beat(m.now)
}

// acked handles an acknowledgement. The stamp is ours, come back.
func (m *Machine) acked(from int, msg *election.Message) {
	if !m.tenure.Beats() {
		return
	}
	m.detector.Acked(m.now, m.origin.Add(time.Duration(msg.Stamp)))
	m.members[from].version = msg.Version
	if m.tenure.Mine(msg.Token) {
		m.members[from].ackedAt = m.now
	}
	if m.members[from].epoch != msg.Token.Epoch {
		m.members[from].epoch = msg.Token.Epoch
		m.statesChanged()
	}
}

// takeLeader begins to follow.
func (m *Machine) takeLeader() {
	m.detector.Settle()
	if m.cfg.NoDetector {
		return
	}
	m.alarms.Wake(m.detector.SilentAt())
	if i := m.index[m.tenure.Held().Leader.ID]; !m.members[i].link {
		m.members[i].anew = true
		m.members[i].redial = m.now
		m.alarms.Wake(m.members[i].redial)
	}
}

// beaten handles a leader's beat.
func (m *Machine) beaten(from int, msg *election.Message) {
	if msg.Token.Leader.ID != msg.From {
		return // only the leader sends beats
	}
	if m.tenure.Draining() && !m.cfg.NoDetector {
		if msg.Token.Above(m.tenure.Held()) {
			m.superseded(msg.Token, true)
			m.send(from, election.Message{Kind: election.Ack, Token: m.View(), Stamp: msg.Stamp}) // it is received, and followed later
		}
		return
	}
	if msg.Draining && m.givesWay(msg.Token, m.now) && msg.Token != m.tenure.Next() && msg.Token != m.View() {
		if m.tenure.Leading() && msg.Token.Above(m.tenure.Held()) {
			m.accept(msg.Token, from)
		}
		m.send(from, election.Message{Kind: election.Ack, Token: m.View(), Stamp: msg.Stamp}) // it knows that its time has ended
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

func (m *Machine) acknowledge(leader int) {
	stamp, version := m.detector.Ack()
	m.send(leader, election.Message{Kind: election.Ack, Token: m.View(), Stamp: stamp, Version: version})
}

// watchToo watches id beside the leader.
func (m *Machine) watchToo(id election.ID) {
	if m.watched == id || m.cfg.NoDetector {
		return
	}
	m.watched, m.nextPing = id, m.now
	m.alarms.Wake(m.now)
}

// ping keeps the link to the watched member alive.
func (m *Machine) ping() {
	i, ok := m.index[m.watched]
	if !ok || m.now.Before(m.nextPing) || !m.members[i].link && m.members[i].viaAt.IsZero() {
		return
	}
	m.nextPing = m.now.Add(m.cfg.Timing.Heartbeat)
	if !m.reaches(i, m.now) {
		if peer := &m.members[i]; !peer.viaAt.IsZero() && !peer.down {
			m.pingIndirectly(i) // its relay has stopped
		}
		return
	}
	m.send(i, election.Message{Kind: election.Ping, Stamp: int64(m.now.Sub(m.origin))})
}
