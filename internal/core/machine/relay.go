package machine

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// unreached: a member has not answered, and may live.
func (m *watcher) unreached(i int) {
	peer := &m.members[i]
	if m.now.Sub(peer.heard) > m.cfg.Timing.T() {
		if peer.state != election.StateDown {
			m.setState(i, election.StateUnreachable)
		}
		if peer.Asked(m.cfg.Self.ID) || peer.awaited || m.shouldDial(i) {
			m.pingIndirectly(i)
		}
	}
	m.unanswered(i)
}

// What follows reaches members that no link can be made to, in the manner of SWIM's indirect probes
// (Das, Gupta, Motivala 2002): a relay, which both reach, passes messages on. A single relay passes
// a message on, never two, and a single copy leaves for each that comes in. A refusal needs none of
// this: that process is gone.

// reached records that a relay passes on what i sends.
func (m *watcher) reached(i int, by election.ID) {
	peer := &m.members[i]
	anew := m.now.Sub(peer.viaAt) > m.farT()
	if anew || peer.via != by {
		m.note("reaches", peer.ID, election.Token{}, "by "+string(by))
	}
	asked := len(peer.pingers) > 0
	peer.via, peer.viaAt, peer.pingers = by, m.now, nil
	if m.now.Sub(peer.proof.taken) > 2*m.cfg.Timing.TMax { // else it may have sent this before it ended
		m.refute(i)
	}
	m.markUp(i)
	switch { // as over a new link
	case peer.link || !anew && !asked:
	case m.tenure.Beats():
		m.replyToProbe(peer.ID)
	case anew && m.tenure.Started() && m.undecided() && m.eligibility() != election.Eligible:
		m.send(i, &election.Message{Kind: election.Probe, Token: m.tenure.Held()})
	}
	m.passLost(i)
}

// pingIndirectly asks by relays for a member that does not answer a dial: first its last relay,
// then every member. A member that is down anyway is asked for by a single relay at a time. When no
// relay can be asked, it has failed.
func (m *watcher) pingIndirectly(i int) {
	peer := &m.members[i]
	if len(peer.pingers) > 0 {
		return
	}
	if _, ok := m.relayTo(i, m.now); ok && m.now.Sub(peer.viaAt) <= m.cfg.Timing.Heartbeat {
		if m.tenure.Beats() {
			m.replyToProbe(peer.ID) // it receives no heartbeats
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
			m.unreachedIndirectly(i, "no member can relay a message to it")
		}
		return
	}
	most := time.Duration(0)
	for _, r := range by {
		most = max(most, m.answerTime(r, m.now))
		m.pass(r, m.fill(peer.ID, &election.Message{Kind: election.Ping, Stamp: int64(m.now.Sub(m.origin))}))
	}
	peer.until = m.now.Add(most + 2*m.cfg.Timing.DialTime() + m.cfg.Timing.TProcess)
	m.alarms.Wake(peer.until)
}

// cannot records that a relay cannot pass anything on to i.
func (m *watcher) cannot(by election.ID, i int) {
	peer := &m.members[i]
	at := slices.Index(peer.pingers, by)
	if at < 0 {
		return
	}
	if peer.pingers = slices.Delete(slices.Clone(peer.pingers), at, at+1); len(peer.pingers) == 0 {
		m.unreachedIndirectly(i, "no member reaches it")
	}
}

// unreachedIndirectly: a member is not reached by relays either. If its last relay was asked, all
// are asked next.
func (m *watcher) unreachedIndirectly(i int, why string) {
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
		return // the members that confirm it decide
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
func (m *watcher) dialedInVain(i int) {
	wants, id := m.members[i].wants, m.members[i].ID
	m.members[i].wants = nil
	m.members[i].proof.settle()
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

// watchRelays does what is due of all this.
func (m *watcher) watchRelays() {
	m.others(func(i int, peer *member) {
		switch {
		case len(peer.pingers) == 0:
		case !m.now.Before(peer.until):
			m.unreachedIndirectly(i, "it answers no member")
		default:
			m.alarms.Wake(peer.until)
		}
	})
}
