package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file reaches members that no link can be made to, in the manner of SWIM's indirect probes
// (Das, Gupta, Motivala 2002): a relay, which both reach, passes messages on. A single relay passes
// a message on, never two, and a single copy leaves for each that comes in. A refusal needs none of
// this: that process is gone.

// fewRelays is how many a member of a large cluster asks at once; SWIM has three.
const fewRelays = 3

// relaying is how the message that is being taken in has come.
type relaying struct {
	byRelay bool // by a relay
}

// relays is what a Machine knows of a member that it may reach only by relays.
type relays struct {
	via     election.ID   // the relay of its last message
	viaAt   time.Time     // when; zero: there was none
	pingers []election.ID // the relays that are to pass a question on to it, and have not reported that they cannot
	until   time.Time     // after that it does not answer
	wants   []election.ID // members of which the messages wait for a dial to it
	turn    int           // of the members, which asks next whether it has come back
}

// relayTo is the relay to a member, if that is the way.
func (l *roll) relayTo(to int, now time.Time) (r int, ok bool) {
	peer := &l.members[to]
	if peer.viaAt.IsZero() || now.Sub(peer.viaAt) > l.farT() || peer.link && !peer.viaAt.After(peer.heard) {
		return 0, false
	}
	r, ok = l.index[peer.via]
	return r, ok && r != l.me && !l.members[r].down
}

// reaches reports whether messages can go to a member, over a link or by a relay.
func (l *roll) reaches(i int, now time.Time) bool {
	_, ok := l.relayTo(i, now)
	return ok || l.members[i].link
}

// passes returns which messages go by relays: all except what a link is kept for.
func passes(k election.MessageKind) bool {
	return k != election.Beat && k != election.Ack && k != election.Members && k != election.GetMembers && k != election.Relay
}

// pass has a relay pass on a message.
func (m *Machine) pass(r int, msg *election.Message) {
	m.send(r, election.Message{Kind: election.Relay, Carried: msg})
	if m.cfg.Trace != nil && !routine(msg.Kind) {
		m.trace(election.Record{What: "sends", Peer: msg.To, Token: msg.Token, Message: msg, Why: "by " + string(m.members[r].ID)})
	}
}

// relayed handles what a member passes on, or wants passed on.
func (m *Machine) relayed(from int, msg *election.Message) {
	inner := msg.Carried
	if inner == nil || inner.Election != m.cfg.Election || max(inner.Token.Epoch, inner.Highest) > m.seen.Limit(m.now) {
		return
	}
	to, known := m.index[inner.To]
	switch {
	case !known:
	case msg.Ended && inner.From == m.cfg.Self.ID && to != m.me:
		m.cannot(m.members[from].ID, to)
	case msg.Ended:
	case to == m.me:
		m.receivePassed(from, inner)
	case inner.From == msg.From && to != from && passes(inner.Kind):
		m.passOn(from, to, inner)
	}
}

// passOn passes on a message as a relay. A relay that cannot reports so.
func (m *Machine) passOn(from, to int, inner *election.Message) {
	peer, asker := &m.members[to], m.members[from].ID
	if !peer.link && !peer.missed.IsZero() && m.now.Sub(peer.missed) <= m.cfg.Timing.T() {
		m.cannotPass(from, peer.ID)
		return
	}
	if !peer.link && !slices.Contains(peer.wants, asker) {
		peer.wants = append(slices.Clone(peer.wants), asker)
	}
	m.send(to, election.Message{Kind: election.Relay, Carried: inner})
}

// cannotPass reports that a member is not reached here either. What it carries names that member,
// as a question to it: no frame is without a kind.
func (m *Machine) cannotPass(asker int, to election.ID) {
	m.send(asker, election.Message{Kind: election.Relay, Ended: true, Carried: &election.Message{Kind: election.Ping, From: m.members[asker].ID, To: to, Election: m.cfg.Election}})
}

// receivePassed handles a message that came by a relay. It shows that its sender lives and how to
// reach it, and is not received from itself.
func (m *Machine) receivePassed(by int, msg *election.Message) {
	i, ok := m.index[msg.From]
	if !ok || i == m.me || i == by || !passes(msg.Kind) {
		return
	}
	if m.cfg.Trace != nil && !routine(msg.Kind) {
		m.trace(election.Record{What: "receives", Peer: msg.From, Token: msg.Token, Message: msg, Why: "by " + string(m.members[by].ID)})
	}
	m.byRelay = true
	defer func() { m.byRelay = false }()
	m.reached(i, m.members[by].ID)
	m.heed(m.index[msg.From], msg)
}

// reached records that a relay passes on what i sends.
func (m *Machine) reached(i int, by election.ID) {
	peer := &m.members[i]
	anew := peer.viaAt.IsZero() || m.now.Sub(peer.viaAt) > m.farT()
	if anew || peer.via != by {
		m.note("reaches", peer.ID, election.Token{}, "by "+string(by))
	}
	asked := len(peer.pingers) > 0
	peer.via, peer.viaAt, peer.pingers = by, m.now, nil
	m.markUp(i)
	switch { // as over a new link
	case peer.link || !anew && !asked:
	case m.tenure.Beats():
		m.replyToProbe(peer.ID)
	case anew && m.tenure.Started() && m.undecided() && m.eligibility() != election.Eligible:
		m.send(i, election.Message{Kind: election.Probe, Token: m.tenure.Held()})
	}
	m.passLost(i)
}

// passLost has a relay pass on what a member may have lost: a dial is under way with it, as vain as
// the last.
func (m *Machine) passLost(i int) {
	r, ok := m.relayTo(i, m.now)
	if !ok {
		return
	}
	peer := &m.members[i]
	lost := peer.unconfirmed
	peer.keep(func(s sent) bool { return !passes(s.msg.Kind) })
	for _, s := range lost {
		if passes(s.msg.Kind) && (s.lost || !s.last.Before(peer.heard)) && m.now.Sub(s.first) <= 2*m.farT() {
			m.pass(r, m.saidAgain(s.msg))
			m.awaitsLonger(i, s.msg)
		}
	}
}

// pingIndirectly asks by relays for a member that does not answer a dial: first its last relay,
// then every member. A member that is down anyway is asked for by a single relay at a time. When no
// relay can be asked, it has failed.
func (m *Machine) pingIndirectly(i int) {
	peer := &m.members[i]
	if len(peer.pingers) > 0 {
		return
	}
	if _, ok := m.relayTo(i, m.now); ok && m.now.Sub(peer.viaAt) <= m.cfg.Timing.Heartbeat {
		if m.tenure.Beats() {
			m.replyToProbe(peer.ID) // it receives no beats
		}
		return
	}
	var by []int
	last, ok := m.index[peer.via]
	switch {
	case ok && m.mayPass(last, i, m.now) && m.members[last].link:
		by = []int{last}
		peer.via = election.None // once: when it fails, the rest
	case peer.down:
		by = m.nextToAsk(i, m.now)
	default:
		by = m.allToAsk(i, m.now)
	}
	for _, r := range by {
		peer.pingers = append(peer.pingers, m.members[r].ID)
	}
	if len(by) == 0 {
		if peer.viaAt = (time.Time{}); !peer.dialing { // else the dial will show
			m.unreachedIndirectly(i, "nobody can pass a message on to it")
		}
		return
	}
	most := time.Duration(0)
	for _, r := range by {
		most = max(most, m.answerTime(r, m.now))
		m.pass(r, m.fill(peer.ID, election.Message{Kind: election.Ping, Stamp: int64(m.now.Sub(m.origin))}))
	}
	peer.until = m.now.Add(most + 2*m.cfg.Timing.DialTime() + m.cfg.Timing.TProcess)
	m.alarms.Wake(peer.until)
}

// asked reports whether something of this member's own was lost with a dial that has failed: a dial
// made as a relay is not its concern.
func (peer *member) asked(self election.ID) bool {
	return slices.ContainsFunc(peer.unconfirmed, func(s sent) bool {
		return s.lost && !s.proof && (s.msg.Kind != election.Relay || s.msg.Carried.From == self)
	})
}

// mayPass reports whether r may be asked to pass something on to i.
func (l *roll) mayPass(r, i int, now time.Time) bool {
	peer := &l.members[r]
	return r != i && r != l.me && !peer.down && (peer.link || peer.missed.IsZero() || now.Sub(peer.missed) > l.timing.T())
}

// allToAsk is every member that may be asked. In a large cluster it is a few with a link: where all
// dial all, as at its birth, each would otherwise ask each for each. The rest get their turn
// singly.
func (l *roll) allToAsk(i int, now time.Time) (by []int) {
	most, large := probeWave, len(l.members) > probeWave+1
	if large {
		most = fewRelays
	}
	l.others(func(r int, peer *member) {
		if l.mayPass(r, i, now) && (peer.link || !large) && len(by) < most {
			by = append(by, r)
		}
	})
	return by
}

// nextToAsk is a single member at a time, only of those with a link.
func (l *roll) nextToAsk(i int, now time.Time) []int {
	peer := &l.members[i]
	for range l.members {
		peer.turn = (peer.turn + 1) % len(l.members)
		if l.mayPass(peer.turn, i, now) && l.members[peer.turn].link {
			return []int{peer.turn}
		}
	}
	return nil
}

// cannot records that a relay cannot pass anything on to i.
func (m *Machine) cannot(by election.ID, i int) {
	peer := &m.members[i]
	at := slices.Index(peer.pingers, by)
	if at < 0 {
		return
	}
	if peer.pingers = slices.Delete(slices.Clone(peer.pingers), at, at+1); len(peer.pingers) == 0 {
		m.unreachedIndirectly(i, "nobody reaches it")
	}
}

// unreachedIndirectly: a member is not reached by relays either. If its last relay was asked, all
// are asked next.
func (m *Machine) unreachedIndirectly(i int, why string) {
	peer := &m.members[i]
	peer.pingers = nil
	if peer.link || peer.down {
		return
	}
	if !peer.viaAt.IsZero() {
		peer.viaAt = time.Time{}
		m.pingIndirectly(i)
		return
	}
	if m.tenure.LedBy(m.members[i].ID) {
		return // the members that vouch decide
	}
	if peer.ID == m.watched {
		m.markDown(i, election.CauseSilent, false, why)
		return
	}
	peer.down = true
	m.step(election.Event{Kind: election.PeerDown, Peer: peer.ID})
}

// dialedInVain settles what waited for a dial that has failed. silent: the member may be reached by
// relays.
func (m *Machine) dialedInVain(i int) {
	wants, id := m.members[i].wants, m.members[i].ID
	m.members[i].wants = nil
	for _, asker := range wants {
		if a, ok := m.index[asker]; ok {
			m.cannotPass(a, id)
		}
	}
	m.others(func(other int, peer *member) {
		if len(peer.pingers) > 0 {
			m.cannot(id, other)
		}
	})
}

// outbid sends a leader the higher token that we hold, if a member reports that it leads with a
// lower token: there may be no link over which we receive it, and we may be the only member that
// knows better.
func (m *Machine) outbid(t election.Token, told int) {
	if i, ok := m.index[t.Leader.ID]; ok && i != told && i != m.me {
		m.replyToProbe(t.Leader.ID)
	}
}

// watchRelays does what is due of all this.
func (m *Machine) watchRelays() {
	m.others(func(i int, peer *member) {
		switch {
		case len(peer.pingers) == 0:
		case !m.now.Before(peer.until):
			m.unreachedIndirectly(i, "it answers nobody")
		default:
			m.alarms.Wake(peer.until)
		}
	})
}
