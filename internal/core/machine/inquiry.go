package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// inquiry asks: the members about a leader, and a higher member whether it claims.
type inquiry struct{ mail }

// What follows keeps two members' work apart. A member whose leadership has ended reports in all its
// messages, and in beats, that its work still runs, until it has stopped. No member claims
// meanwhile, for as long as that member is received.

// othersDrain is drains, members that depart included.
func (m *inquiry) othersDrain() election.ID {
	if len(m.departing) > 0 {
		return m.departing[0].id
	}
	return m.drains(m.now)
}

// wakeForDraining: a draining member counts as down after the silence that is tolerated.
func (m *inquiry) wakeForDraining() {
	for i := range m.members {
		if peer := &m.members[i]; m.contestHeld && i != m.me && peer.drains(m.now, m.cfg.Timing.Bears()) {
			m.alarms.Wake(peer.saidAt.Add(m.cfg.Timing.Bears() + 1))
		}
	}
	for _, d := range m.departing {
		m.alarms.Wake(d.heard.Add(m.cfg.Timing.Bears() + 1))
	}
}

// departed forgets a process that has left the list and works no more, or is gone.
func (m *inquiry) departed(i int, why string) {
	id := m.departing[i].id
	m.departing = slices.Delete(slices.Clone(m.departing), i, i+1)
	m.note("has departed", id, election.Token{}, why)
	m.do(election.Action{Kind: election.Notify, Member: id, Status: election.StateRemoved})
	m.do(election.Action{Kind: election.Hangup, To: id})
}

// heardLeader notes that a message of the leader itself has arrived.
func (m *inquiry) heardLeader() {
	m.detector.ReceiveLeader(m.now)
	m.restsOnNoAnswer()
	m.endSuspicion()
}

func (m *inquiry) endSuspicion() {
	if m.detector.Acquit() {
		m.alarms.Cancel(timerVouch)
		m.awaitNobody()
	}
}

// What follows asks before it claims: which epoch the members know of, after a start, a stall or the
// loss of leadership.

// discovery is what this member is finding out. It may go on for a while under a leader that is
// known only indirectly: what that leader's end leaves is known the sooner.
type discovery struct {
	mode           mode
	replied        bool      // a member has replied
	unacknowledged bool      // we stepped down because no acknowledgement came; claim only once answered or without peers
	since          time.Time // an answer to an earlier question does not show the present
	inquired       time.Time // when the questions began that a claim would rest on; zero: on none
	askedTwice     bool      // in this contest, because an answer was lost
}

// mode is what a discovery waits for.
type mode uint8

const (
	idle         mode = iota
	awaitsLeader      // the leader of the members that have just admitted this member
	asks              // replies about the highest epoch, before any claim
)

// claimsOnlyAnswered has this member, whose leadership no member has acknowledged, claim again only
// once it is answered or without peers.
func (d *discovery) claimsOnlyAnswered() { d.unacknowledged = true }

// probeNext asks the highest member that this discovery has not asked yet.
func (m *inquiry) probeNext() {
	for i := len(m.members) - 1; i >= 0; i-- {
		if i != m.me && !m.members[i].probed {
			m.probe(i)
			return
		}
	}
}

// probe asks a member what it knows of the leadership, and waits for its reply.
func (m *inquiry) probe(i int) {
	peer := &m.members[i]
	peer.awaited, peer.probed, peer.askedAt, peer.replied, peer.reports = true, true, m.now, false, election.None
	m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()})
	m.awaitAnew(i)
}

// answered notes whether any member has replied.
func (d *discovery) answered(any bool) { d.replied = any }

// inquires records that a claim will rest on what is asked from now on.
func (d *discovery) inquires(now time.Time) { d.inquired = now }

// restsOnNoAnswer records that a claim would rest on no answer: a leader is received, or confirmed.
func (d *discovery) restsOnNoAnswer() { d.inquired = time.Time{} }

// mayAskTwice allows to ask once more in this contest for an answer that is lost.
func (d *discovery) mayAskTwice(may bool) { d.askedTwice = !may }

// awaitNobody ends the wait for replies, for those to come to what was asked until now too.
func (m *inquiry) awaitNobody() {
	m.since = m.now
	for i := range m.members {
		m.members[i].awaited = false
	}
}

// askAgain asks those again that have reported a leader which was not on our list, and is by now.
func (m *inquiry) askAgain() {
	m.others(func(i int, peer *member) {
		if peer.awaited && peer.reports != election.None && m.Knows(peer.reports) {
			m.probe(i)
		}
	})
}

// What follows keeps what members report of themselves: whether they are candidates. The leader
// receives it with each acknowledgement and passes it on in its heartbeats, because its followers do not
// receive each other.

// poll asks those that may claim, too, whether they are candidates.
type poll struct {
	contestAt time.Time // what members reported before is old: the contest has begun since
	polledAt  time.Time // when we began to ask higher members whether they are candidates; zero: we do not
}

// polls notes since when higher members are asked; zero: they are not.
func (p *poll) polls(since time.Time) { p.polledAt = since }

// pollsHigher asks those higher members whose last report makes a claim unsafe. A member that was
// no candidate, as it reported before this election or while it still asked for a leader, may be
// about to claim, too. So may a candidate that was received since and has not reported that it
// takes the election over, and a resigned member that is the next candidate: a round of a ring goes
// past it when it has yet to find the leadership lost. No further member is waited for, and none gets a
// second turn: a program with a different idea of rank may be a candidate and never take over.
func (m *inquiry) pollsHigher() bool {
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
			m.polls(m.now)
		}
		peer.polled, asks = true, true
		m.note("sounds", peer.ID, election.Token{}, "it may claim, too")
		m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()})
		m.alarms.Set(timerPoll, m.now.Add(m.cfg.Timing.DialTime()+4*m.cfg.Timing.TMax))
	}
	return asks
}
