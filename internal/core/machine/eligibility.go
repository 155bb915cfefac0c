package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps what members report of themselves: whether they are candidates. The leader
// receives it with each acknowledgement and passes it on in its beats, because its followers do not
// receive each other.

// poll asks those that may claim, too, whether they stand.
type poll struct {
	contestAt time.Time // what members reported before is old: the contest has begun since
	polledAt  time.Time // when we began to ask higher members whether they are candidates; zero: we do not
}

// heardEligibility takes in a member's own eligibility. over: it is under a leadership that has
// been superseded, so that its work may run.
func (r *roll) heardEligibility(i int, msg *election.Message, over, byRelay bool, now time.Time) {
	peer := &r.members[i]
	if peer.eligibility != election.Eligible && msg.Eligibility == election.Eligible {
		peer.eligibleAt = now
	}
	if peer.eligibility != msg.Eligibility || peer.saidAt.IsZero() {
		peer.eligibility = msg.Eligibility
		r.statesChanged()
	}
	peer.polled, peer.deaf = peer.polled && msg.Kind == election.Ack, false // an acknowledgement may have set out before the question
	draining := (msg.Draining || over && msg.Kind == election.Beat && msg.Token.Leader.ID == msg.From) && !r.noLinks
	if peer.draining && !draining && byRelay && peer.link {
		return // it may be older than what has come over the link, which holds until it is too old itself
	}
	peer.saidAt, peer.draining = now, draining
}

// toldEligibility is what a leader reports of a member's eligibility: nothing before it has
// received it.
func (peer *member) toldEligibility() election.Eligibility {
	if peer.saidAt.IsZero() {
		return ""
	}
	return peer.eligibility.Said()
}

// pollsHigher asks those higher members whose last report makes a claim unsafe. A member that was
// no candidate, as it reported before this contest or while it still asked for a leader, may be
// about to claim, too. So may a candidate that was received since and has not reported that it
// takes the contest over, and a resigned member that stands next: a round of a ring goes past it
// when it has yet to find the leadership lost. No further member is waited for, and none gets a second turn: a program
// with a different idea of rank may be a candidate and never take over.
func (m *Machine) pollsHigher() bool {
	if m.cfg.NoDetector {
		return false
	}
	asks := m.polling()
	for i := len(m.members) - 1; i > m.me; i-- {
		peer := &m.members[i]
		unsafe := peer.saidAt.Before(m.contestAt) || peer.eligibility == election.IneligibleUnfounded
		if m.eligible(peer) {
			unsafe = !peer.gaveTurn && (peer.saidAt.After(m.contestAt) || peer.eligibility == election.StandsNext)
		}
		if !unsafe || peer.polled || peer.deaf || peer.down || peer.Observer || peer.state != election.StateUp && !peer.link {
			continue
		}
		if !asks {
			m.polledAt = m.now
		}
		peer.polled, asks = true, true
		m.note("sounds", peer.ID, election.Token{}, "it may claim, too")
		m.send(i, election.Message{Kind: election.Probe, Token: m.tenure.Held()})
		m.alarms.Set(timerPoll, m.now.Add(m.cfg.Timing.DialTime()+4*m.cfg.Timing.TMax))
	}
	return asks
}

// overtaken reports whether a higher member has become a candidate while our claim was on its way
// to the disk, or at the moment in which that set out. It has asked for what we know, which did not
// include the claim, and is about to claim. It gets its turn, once.
func (m *Machine) overtaken() (yes bool) {
	for i := m.me + 1; i < len(m.members); i++ {
		peer := &m.members[i]
		if !m.cfg.NoDetector && m.eligible(peer) && !peer.eligibleAt.Before(m.tenure.ClaimedAt()) && !peer.gaveTurn {
			peer.gaveTurn, yes = true, true
			m.note("yields", peer.ID, m.tenure.Next(), "it stands since we claim")
		}
	}
	return yes
}

// contestBegins records that a contest begins: what members reported of themselves before is old.
func (m *Machine) contestBegins() {
	m.contestAt = m.now
	m.mayAskTwice(true)
	for i := range m.members {
		m.members[i].gaveTurn = false
	}
}

// polling reports whether such an answer is awaited.
func (r *roll) polling() bool {
	for i := range r.members {
		if peer := &r.members[i]; peer.polled && !peer.down {
			return true
		}
	}
	return false
}

// endPoll goes on as soon as all have answered, or are down.
func (m *Machine) endPoll() {
	if !m.polledAt.IsZero() && !m.polling() {
		m.alarms.Cancel(timerPoll)
		m.polled(func() { m.take("all have answered or are down") })
	}
}

// pollTimedOut asks again for a leader before it claims: what the members reported of that is old,
// and a member that did not answer may lead.
func (m *Machine) pollTimedOut() {
	for i := range m.members {
		m.members[i].deaf = m.members[i].deaf || m.members[i].polled
	}
	m.polled(func() { m.discover("they have not answered in time") })
}

// polled goes on to claim, or leaves it to the contest if a candidate was found.
func (m *Machine) polled(claim func()) {
	stands := false
	for i := range m.members {
		peer := &m.members[i]
		if i > m.me && !peer.polled && m.eligible(peer) && !peer.saidAt.Before(m.polledAt) {
			stands, peer.gaveTurn = true, true
		}
		peer.polled = false
	}
	m.polledAt = time.Time{}
	switch {
	case !m.mayClaim():
	case stands:
		m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
	default:
		claim()
	}
}
