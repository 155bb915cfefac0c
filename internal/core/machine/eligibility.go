package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps what members say of themselves: whether they stand for election.
// The leader hears it with each acknowledgement and tells it in its beats, because
// its followers do not hear each other.

// poll asks those that may claim, too, whether they stand.
type poll struct {
	contestAt time.Time // what members said of themselves before is old: the contest has begun since
	polledAt  time.Time // when we began to ask higher ones whether they stand; zero: we do not
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
	peer.polled, peer.deaf = false, false
	draining := (msg.Draining || over && msg.Kind == election.Beat && msg.Token.Leader.ID == msg.From) && !r.noLinks
	if peer.draining && !draining && byRelay && peer.link {
		return // it may be older than what has come over the link, which holds until it is too old itself
	}
	peer.saidAt, peer.draining = now, draining
}

// toldEligibility is what a leader tells the others of a member's eligibility: nothing before it
// has heard it.
func (peer *member) toldEligibility() election.Eligibility {
	if peer.saidAt.IsZero() {
		return ""
	}
	return peer.eligibility.Said()
}

// pollsHigher asks those higher members by whose word a claim would be unsafe: who did not
// stand, by a word from before this contest or as it still asked who leads, may be about
// to claim, too; and so may one that stands, spoke since, and has not said that it takes
// the contest over. Nobody else is waited for, and nobody gets a second turn: a program
// with another idea of rank may stand and never take over.
func (m *Machine) pollsHigher() bool {
	if m.cfg.NoDetector {
		return false
	}
	asks := m.polling()
	for i := len(m.members) - 1; i > m.me; i-- {
		peer := &m.members[i]
		unsafe := peer.saidAt.Before(m.contestAt) || peer.eligibility == election.IneligibleUnfounded
		if m.eligible(peer) {
			unsafe = peer.saidAt.After(m.contestAt) && !peer.gaveTurn
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

// overtaken reports whether a higher member has begun to stand while our claim was on
// its way to the disk, or at the moment in which that set out: it has asked what we know,
// which did not tell of that, and is about to claim. It gets its turn, once.
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

// contestBegins notes that a contest begins: what members said of themselves before is old.
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

// pollTimedOut asks anew who leads before it claims: what the others said of that is old,
// and who did not answer may lead.
func (m *Machine) pollTimedOut() {
	for i := range m.members {
		m.members[i].deaf = m.members[i].deaf || m.members[i].polled
	}
	m.polled(func() { m.discover("they have not answered in time") })
}

// polled goes on to claim, or leaves it to the contest if one of those asked stands.
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
