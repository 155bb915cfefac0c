package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file sends: what every message carries, and which way it goes.

// send sends msg to a member, dialing it when no link stands.
func (m *Machine) send(to int, msg election.Message) {
	m.post(to, m.fill(m.members[to].ID, msg))
}

// fill sets the sender of a message, and what every message carries.
func (m *Machine) fill(to election.ID, msg election.Message) *election.Message {
	msg.From, msg.To, msg.Election = m.cfg.Self.ID, to, m.cfg.Election
	m.saysNow(&msg)
	if msg.Stamp == 0 && m.cfg.stamps(&msg) {
		msg.Stamp = m.cfg.stampAt(m.now, m.origin)
	}
	return &msg
}

// saysNow gives a message what every message carries of its sender, as it is now.
func (m *Machine) saysNow(msg *election.Message) {
	msg.Highest, msg.Eligibility, msg.Digest, msg.Draining = m.seen.Highest(), m.Standing(), m.roster.Digest(), m.tenure.Draining()
	msg.MetaDigest, msg.Pause = m.metas.Digest(), m.maintenance.Report(m.now)
	if msg.Token == m.tenure.Held() && msg.Kind != election.Ack {
		side := m.side()
		msg.Side, msg.Young = side.Size, side.Young
		if m.tenure.Base() < m.tenure.Held().Epoch {
			msg.Renews = m.tenure.Base()
		}
	}
}

// routine kinds flow all the time and would drown the trace.
func routine(k election.MessageKind) bool {
	return k == election.Beat || k == election.Ack || k == election.Ping || k == election.Pong || k == election.Relay
}

func (m *Machine) post(to int, msg *election.Message) { m.postAgain(to, msg, m.now) }

// postAgain sends what was sent before, at first.
func (m *Machine) postAgain(to int, msg *election.Message, first time.Time) {
	peer := &m.members[to]
	if r, ok := m.relayTo(to, m.now); ok && passes(msg.Kind) {
		m.pass(r, msg)
		return
	}
	if routine(msg.Kind) && msg.Kind != election.Relay {
		m.do(election.Action{Kind: election.Send, To: peer.ID, Message: msg})
		return
	}
	if lasting := m.tenure.Beats() || m.tenure.LedBy(m.members[to].ID); peer.link && !lasting && peer.stale(m.now, m.cfg.Timing) {
		m.hangUp(to)
	}
	if !peer.link {
		peer.dialing = true
	}
	peer.used, peer.comes = m.now, m.now
	if !peer.link {
		peer.comes = m.now.Add(m.cfg.Timing.DialTime())
	}
	if peer.pending.IsZero() {
		peer.pending = m.now
	}
	peer.sends(msg, first, m.now, peer.ID == m.watched && ofContest(msg.Kind))
	m.do(election.Action{Kind: election.Send, To: peer.ID, Message: msg})
	if m.cfg.Trace != nil {
		m.trace(election.Record{What: "sends", Peer: peer.ID, Token: msg.Token, Message: msg})
	}
}
