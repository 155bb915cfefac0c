package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps what has been sent to a member until it is taken to have come, and resends it
// when the connection ends before that: message delivery is reliable (docs/sources.md, "Epochs").
// Everything in it is dropped where it is late, or comes twice.
//
// To the member that the algorithm watches, the algorithm's messages are kept until an answer to
// something later proves that they have come: what a ring has lost would be missed for a whole turn
// of its slowest. Of all else the newest is kept, until that member is received.

// mostUnconfirmed bounds what is kept for a member; the oldest is dropped.
const mostUnconfirmed = 8

// sent is a message that may not have come.
type sent struct {
	msg         *election.Message
	first, last time.Time // when it left: at first, and over the newest connection
	proof       bool      // it is kept until there is proof
	lost        bool      // it went with a dial that failed
}

// sends takes note of a message that leaves now, and first left then; proof: it is kept until there
// is proof.
func (p *member) sends(msg *election.Message, first, now time.Time, proof bool) {
	p.keep(needsProof)
	p.unconfirmed = append(p.unconfirmed, sent{msg: msg, first: first, last: now, proof: proof})
	if excess := len(p.unconfirmed) - mostUnconfirmed; excess > 0 {
		p.unconfirmed = p.unconfirmed[excess:]
	}
}

// ofContest reports whether a message is the algorithm's. What the Machine's own messages ask for,
// or report, is repeated anyway.
func ofContest(k election.MessageKind) bool {
	switch k {
	case election.Probe, election.ProbeReply, election.Resign, election.Handover, election.Members, election.GetMembers, election.Named:
		return false
	}
	return !routine(k)
}

// which gives those. Copies of a Machine share the list: it is never changed.
func (p *member) which(those func(sent) bool) (list []sent) {
	for _, s := range p.unconfirmed {
		if those(s) {
			list = append(list, s)
		}
	}
	return list
}

// keep forgets all but those.
func (p *member) keep(those func(sent) bool) { p.unconfirmed = p.which(those) }

// heardAnything takes note that a member lives.
func (p *member) heardAnything() {
	p.pending = time.Time{}
	p.keep(needsProof)
}

// confirms takes note of an answer to what left at asked: all that left before that has come.
func (p *member) confirms(asked time.Time) {
	p.keep(func(s sent) bool { return !s.last.Before(asked) })
}

// dialLost takes note that a dial has failed, and all that went with it. What needs proof is kept for
// no longer than within.
func (p *member) dialLost(now time.Time, within time.Duration) {
	p.keep(func(s sent) bool { return !s.lost || s.proof && now.Sub(s.first) <= within })
	p.loses(func(sent) bool { return true })
}

// loses records that those are lost, until they are resent.
func (p *member) loses(those func(sent) bool) {
	p.unconfirmed = slices.Clone(p.unconfirmed)
	for i, s := range p.unconfirmed {
		p.unconfirmed[i].lost = s.lost || those(s)
	}
}

func isLost(s sent) bool     { return s.lost }
func needsProof(s sent) bool { return s.proof }
func isQuestion(s sent) bool { return s.msg.Kind == election.Probe }

// repeat resends, in its order, what may have been lost. What needs proof is resent with every
// connection that ends, the rest once.
func (m *Machine) repeat(i int, lost []sent) {
	peer := &m.members[i]
	peer.keep(func(s sent) bool {
		return !slices.ContainsFunc(lost, func(l sent) bool { return l.msg == s.msg })
	})
	for _, s := range lost {
		if m.now.Sub(s.first) <= m.farT() {
			m.postAgain(i, m.saidAgain(s.msg), s.first)
			peer.heardAnything()
			m.awaitsLonger(i, s.msg)
		}
	}
}

// awaitsLonger waits for the answer to a message that leaves once more.
func (m *Machine) awaitsLonger(i int, again *election.Message) {
	m.awaitAnew(i)
	if ofContest(again.Kind) {
		m.alarms.ExtendOthers(ownTimers, m.now.Add(m.answerTime(i, m.now)+m.cfg.Timing.TProcess))
	}
}

// saidAgain is msg, leaving now.
func (m *Machine) saidAgain(msg *election.Message) *election.Message {
	again := *msg
	if msg.Stamp != 0 && m.cfg.stamps(msg) {
		again.Stamp = m.cfg.stampAt(m.now, m.origin)
	}
	m.saysNow(&again)
	return &again
}
