package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file has what a member asks about a leader: of all members before an election, and of a silent
// leader before it counts as down.

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

// answered notes whether any member has replied.
func (d *discovery) answered(any bool) { d.replied = any }

// inquires records that a claim will rest on what is asked from now on.
func (d *discovery) inquires(now time.Time) { d.inquired = now }

// restsOnNoAnswer records that a claim would rest on no answer: a leader is received, or confirmed.
func (d *discovery) restsOnNoAnswer() { d.inquired = time.Time{} }

// mayAskTwice allows to ask once more in this contest for an answer that is lost.
func (d *discovery) mayAskTwice(may bool) { d.askedTwice = !may }

// heardLeader notes that a message of the leader itself has arrived.
func (m *claimant) heardLeader() {
	m.detector.ReceiveLeader(m.now)
	m.restsOnNoAnswer()
	m.endSuspicion()
}

func (m *claimant) endSuspicion() {
	if m.detector.Acquit() {
		m.alarms.Cancel(timerVouch)
		m.awaitNobody()
	}
}

// probeNext asks the highest member that this discovery has not asked yet.
func (m *claimant) probeNext() {
	for i := len(m.members) - 1; i >= 0; i-- {
		if i != m.me && !m.members[i].probed {
			m.probe(i)
			return
		}
	}
}

// probe asks a member what it knows of the leadership, and waits for its reply.
func (m *claimant) probe(i int) {
	peer := &m.members[i]
	peer.awaited, peer.probed, peer.askedAt, peer.replied, peer.reports = true, true, m.now, false, election.None
	m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()})
	m.awaitAnew(i)
}

// awaitNobody ends the wait for replies, for those to come to what was asked until now too.
func (m *claimant) awaitNobody() {
	m.since = m.now
	for i := range m.members {
		m.members[i].awaited = false
	}
}

// askAgain asks those again that have reported a leader which was not on our list, and is by now.
func (m *claimant) askAgain() {
	m.others(func(i int, peer *member) {
		if peer.awaited && m.Knows(peer.reports) {
			m.probe(i)
		}
	})
}

// discoverInDoubt asks what has become of leadership since it was lost.
func (m *elector) discoverInDoubt() {
	why := m.doubts
	m.doubts = ""
	if why != "" && m.place == onList {
		m.discover(why)
	}
}

// discover asks every member for the highest epoch; nothing is claimed before the answers are in. A
// member does that when it starts, was stopped, or received no acknowledgement.
func (m *elector) discover(why string) {
	m.mode = asks
	m.answered(false)
	m.declines(time.Time{})
	m.awaitNobody()
	m.inquires(m.now)
	m.enterPhaseWithoutLeader()
	m.note("probes", election.None, election.Token{}, why)
	for i := range m.members {
		m.members[i].probed, m.members[i].replied = false, false
	}
	for range probeWave {
		m.probeNext()
	}
	m.alarms.Set(timerDiscovery, m.now.Add(m.longestAnswer(m.now)+m.cfg.Timing.TProcess))
	if m.anyAwaited() || !m.unacknowledged && !m.rebuffed(m.now) {
		m.endDiscoveryIfAllReplied() // else only time can decide: there is no member left to ask
	}
}

func (m *elector) endDiscoveryIfAllReplied() {
	if m.mode == asks && !m.anyAwaited() {
		m.discovered("all have answered or are down")
	}
}

// discovered ends the discovery with a contest, if no leader was found.
func (m *elector) discovered(why string) {
	switch {
	case m.unacknowledged && !m.replied && m.detector.Accompanied(m.now):
		m.discover("it receives from members, but no answers")
		return
	case m.rebuffed(m.now):
		m.discover(rebuff)
		return
	}
	m.endDiscovery()
	if m.tenure.Leaderless() {
		m.note("has probed", election.None, election.Token{}, why)
		m.step(election.Event{Kind: election.Started})
	}
}

func (m *elector) endDiscovery() {
	if m.mode == idle {
		return
	}
	m.mode, m.unacknowledged = idle, false
	m.seen.Ask()
	m.enterPhaseWithoutLeader()
	m.alarms.Cancel(timerDiscovery)
	m.awaitNobody()
}

// awaitLeader leaves it to the earlier members to elect, for T: of a hundred that join a new
// cluster, not each need contest.
func (m *elector) awaitLeader() {
	m.mode = awaitsLeader
	m.enterPhaseWithoutLeader()
	m.note("awaits", election.None, election.Token{}, "the leader of the members that admitted it")
	m.alarms.Set(timerDiscovery, m.now.Add(m.farT()))
}

// answers reports whether a ProbeReply has what its sender knows now: it answers a present
// question, or the leader that we follow sent it. A member that has answered an earlier question
// may have claimed since. Older versions send no stamp.
func (m *stance) answers(report *election.Message) bool {
	t := report.Token
	follows := t.Leader.ID == report.From && (t == m.tenure.Next() || t == m.View())
	return follows || report.Stamp == 0 || report.Stamp >= m.cfg.stampAt(m.since, m.origin)
}

// outranked reports whether, in a large cluster, there is no need to ask more members than have
// been asked: a leadership is known, or a higher candidate has answered. That candidate asks on and
// will claim, if any does. If it dies, a member that claims in its place with too low an epoch is
// corrected. Otherwise all would ask all.
func (m *stance) outranked() bool {
	if len(m.members) <= probeWave+1 {
		return false
	}
	if !m.tenure.Leaderless() {
		return true
	}
	return anyOf(m.members[m.me+1:], func(peer *member) bool { return peer.replied && m.eligible(peer) })
}

// answerLost reports whether a live member was asked since then for its leader, and its answer has
// not come: the two ends of a link may have given up different connections.
func (r *roll) answerLost(inquired time.Time) bool {
	return anyOf(r.members, func(peer *member) bool { // never this member itself: it is not asked
		asked := peer.probed && !peer.askedAt.Before(inquired)
		return asked && !peer.replied && !peer.down && (peer.heard.After(peer.askedAt) || peer.viaAt.After(peer.askedAt))
	})
}

// rebuff is why this member asks before it claims.
const rebuff = "a member refuses it as removed, or as an earlier process"

// rebuffed reports whether a member has refused this process as removed or as an earlier one within T, and
// may be right: the refusals began less than 3·T ago, or half of the members do not receive this process.
// A member that refuses for longer has missed a change of the list, or is misconfigured.
func (r *roll) rebuffed(now time.Time) bool {
	rebuffs, recent, receive := false, false, 1
	for i := range r.members {
		switch peer := &r.members[i]; {
		case now.Sub(peer.rebuffedAt) <= r.farT():
			rebuffs, recent = true, recent || now.Sub(peer.rebuffFrom) < 3*r.farT()
		case peer.link:
			receive++
		}
	}
	return rebuffs && (recent || 2*receive <= len(r.members))
}

// mayBeBack reports whether a member was last found down more than T ago: followers do not dial
// each other.
func (peer *member) mayBeBack(now time.Time, t time.Duration) bool {
	return peer.down && now.Sub(peer.missed) > t
}

// undecided reports whether there is no leader, nor about to be, and no answer is awaited that may
// name a leader.
func (m *stance) undecided() bool { return m.tenure.Leaderless() && m.mode == idle }

// anotherMayLead reports whether a leader that ends may have given way to one that is not known here, or
// was removed by one.
func (m *claimant) anotherMayLead(msg *election.Message) bool {
	another := msg.Kind == election.ProbeReply || msg.Follows || msg.Highest > msg.Token.Epoch || EndOf(msg) == election.CauseRemoved
	return another && m.heir == election.None && m.mode == idle && !m.cfg.NoDetector
}

// higherMayBeBack reports whether a follower that no heartbeats reach may not know of a higher
// member that is back: followers do not receive each other.
func (m *claimant) higherMayBeBack() bool {
	return m.byRelay && m.heir == election.None && anyOf(m.members[m.me+1:], func(peer *member) bool {
		return peer.mayBeBack(m.now, m.cfg.Timing.T())
	})
}
