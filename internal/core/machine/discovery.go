package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file asks before it claims: which epoch the members know of, after a start, a stall or the
// loss of the lead.

// discovery is what this member is finding out. It may go on for a while under a leader that is
// known only indirectly: what that leader's end leaves is known the sooner.
type discovery struct {
	mode           mode
	replied        bool      // somebody has replied
	unacknowledged bool      // we stepped down because no acknowledgement came; claim only once answered or without peers
	since          time.Time // an answer to an earlier question does not show the present
	inquired       time.Time // when the questions began on whose answers a claim would rest; zero: on none
	askedTwice     bool      // in this contest, because an answer was lost
}

// mode is what a discovery waits for.
type mode uint8

const (
	idle         mode = iota
	awaitsLeader      // the leader of the members that have just admitted this member
	asks              // replies about the highest epoch, before any claim
)

// awaitLeader leaves it to the earlier members to elect, for T: of a hundred that join a new
// cluster, not each need contest.
func (m *Machine) awaitLeader() {
	m.mode = awaitsLeader
	m.enterPhaseWithoutLeader()
	m.note("awaits", election.None, election.Token{}, "the leader of those who let it join")
	m.alarms.Set(timerDiscovery, m.now.Add(m.farT()))
}

// discover asks every member for the highest epoch; nothing is claimed before the answers are in. A
// member does that when it starts, was stopped, or received no acknowledgement.
func (m *Machine) discover(why string) {
	m.mode, m.replied = asks, false
	if m.eligibility() == election.Eligible {
		m.declines(time.Time{})
	}
	m.awaitNobody()
	m.inquires(m.now)
	m.enterPhaseWithoutLeader()
	m.note("inquires", election.None, election.Token{}, why)
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

// claimsOnlyAnswered has this member, whose leadership no member has acknowledged, claim again only
// once it is answered or without peers.
func (d *discovery) claimsOnlyAnswered() { d.unacknowledged = true }

// probeNext asks the highest member that this discovery has not asked yet.
func (m *Machine) probeNext() {
	for i := len(m.members) - 1; i >= 0; i-- {
		if i != m.me && !m.members[i].probed {
			m.probe(i)
			return
		}
	}
}

// probe asks a member what it knows of the leadership, and waits for its reply.
func (m *Machine) probe(i int) {
	peer := &m.members[i]
	peer.awaited, peer.probed, peer.askedAt, peer.replied, peer.reports = true, true, m.now, false, election.None
	m.send(i, election.Message{Kind: election.Probe, Token: m.tenure.Held()})
	m.awaitAnew(i)
}

// unanswered gives up waiting for a member's reply.
func (m *Machine) unanswered(i int) {
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
func (m *Machine) endIfAllReplied() {
	m.endDiscoveryIfAllReplied()
	if m.detector.Suspected() && !m.anyAwaited() {
		m.unvouched("nobody vouches for it")
	}
}

// inquires records that a claim will rest on what is asked from now on.
func (d *discovery) inquires(now time.Time) { d.inquired = now }

// restsOnNoAnswer records that a claim would rest on no answer: a leader is received, or confirmed.
func (d *discovery) restsOnNoAnswer() { d.inquired = time.Time{} }

// mayAskTwice allows to ask once more in this contest for an answer that is lost.
func (d *discovery) mayAskTwice(may bool) { d.askedTwice = !may }

// answerLost reports whether a live member was asked since then for its leader, and its answer has
// not come: the two ends of a link may have given up different connections.
func (r *roll) answerLost(inquired time.Time) bool {
	for i := range r.members {
		peer := &r.members[i]
		asked := i != r.me && peer.probed && !peer.askedAt.Before(inquired)
		if asked && !peer.replied && !peer.down && (peer.heard.After(peer.askedAt) || peer.viaAt.After(peer.askedAt)) {
			return true
		}
	}
	return false
}

// outranked reports whether, in a large cluster, there is no need to ask more members than have
// been asked: a leadership is known, or a higher candidate has answered. That candidate asks on and
// will claim, if any does. If it dies, a member that claims in its place with too low an epoch is
// corrected. Otherwise all would ask all.
func (m *Machine) outranked() bool {
	if len(m.members) <= probeWave+1 {
		return false
	}
	if !m.tenure.Leaderless() {
		return true
	}
	for i := len(m.members) - 1; i > m.me; i-- {
		if m.members[i].replied && m.eligible(&m.members[i]) {
			return true
		}
	}
	return false
}

func (r *roll) anyAwaited() bool {
	for i := range r.members {
		if r.members[i].awaited {
			return true
		}
	}
	return false
}

func (m *Machine) endDiscoveryIfAllReplied() {
	if m.mode == asks && !m.anyAwaited() {
		m.discovered("all have answered or are down")
	}
}

// discovered ends the discovery with a contest, if no leader was found.
func (m *Machine) discovered(why string) {
	switch {
	case m.unacknowledged && !m.replied && m.detector.Accompanied(m.now):
		m.discover("it hears others but no answers")
		return
	case m.rebuffed(m.now):
		m.discover("a member knows another process with this id")
		return
	}
	m.endDiscovery()
	if m.tenure.Leaderless() {
		m.note("has inquired", election.None, election.Token{}, why)
		m.step(election.Event{Kind: election.Started})
	}
}

// rebuffed reports whether a member has refused us lately: it would have again.
func (r *roll) rebuffed(now time.Time) bool {
	for i := range r.members {
		if at := r.members[i].rebuffedAt; !at.IsZero() && now.Sub(at) <= r.farT() {
			return true
		}
	}
	return false
}

func (m *Machine) endDiscovery() {
	if m.mode == idle {
		return
	}
	m.mode, m.unacknowledged = idle, false
	m.seen.Ask()
	m.enterPhaseWithoutLeader()
	m.alarms.Cancel(timerDiscovery)
	m.awaitNobody()
}

// awaitNobody ends the wait for replies, for those to come to what was asked until now too.
func (m *Machine) awaitNobody() {
	m.since = m.now
	for i := range m.members {
		m.members[i].awaited = false
	}
}

// probedBy handles what a question shows: a sender that asks under its own token leads by it no
// more. A member that has received it as a leader waits for its beats all the same: it may have
// been stopped for a moment, and lead again.
func (m *Machine) probedBy(msg *election.Message) {
	t := msg.Token
	switch {
	case t.Leader.ID != msg.From || m.cfg.NoDetector:
	case t == m.tenure.Next() && !m.tenure.Live() && m.hearsay(msg.From):
		m.abandon("its leader asks who leads")
	case t == m.View() && m.hearsay(msg.From):
		m.loseLeader(election.CauseResigned, true, "it asks who leads")
	case t.Above(m.tenure.Held()) && t != m.tenure.Next() && !m.tenure.AnnouncedEnd().Above(t):
		m.tenure.Announced(t, m.now)
	}
}

// probeReplied takes in what a member knows.
func (m *Machine) probeReplied(from int, msg *election.Message) {
	peer := m.members[from].ID
	m.replied = true
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
		m.leaderEnds(msg, "it says that it has ended")
	case !fresh || !known || m.tenure.Mine(msg.Token) || !msg.Token.Defined():
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
		m.adopt(msg.Token, string(peer)+" hears it", time.Time{}, m.now.Add(m.cfg.Timing.Bears()-msg.Age))
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

// askAgain asks those again that have reported a leader which was not on our list, and is by now.
func (m *Machine) askAgain() {
	m.others(func(i int, peer *member) {
		if peer.awaited && peer.reports != election.None && m.Knows(peer.reports) {
			m.probe(i)
		}
	})
}

// replyToProbe sends a member what we hold and how long ago we received its leader. A leader whose
// work has still to stop has not ended yet for the members.
func (m *Machine) replyToProbe(to election.ID) {
	i, ok := m.index[to]
	if !ok || i == m.me {
		return
	}
	if m.eligibility() != election.Eligible {
		m.declines(m.now)
	}
	m.send(i, election.Message{Kind: election.ProbeReply, Stamp: m.echo(to), Token: m.tenure.Held(), Ended: m.tenure.Over() && !m.tenure.Draining(), Follows: m.tenure.Live(), Age: m.leaderAge()})
}
