package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps what members say of themselves: whether they stand for election.
// The leader hears it with each acknowledgement and tells it in its beats, because
// its followers do not hear each other.

// takeStance takes in what a member says of itself.
func (m *Machine) takeStance(i int, msg *election.Message) {
	peer := &m.members[i]
	if peer.aside != election.Stands && msg.Aside == election.Stands {
		peer.stood = m.now
	}
	if peer.aside != msg.Aside || peer.said.IsZero() {
		peer.aside = msg.Aside
		m.version++
	}
	peer.said, peer.sounded = m.now, false
	peer.draining = m.saysDraining(msg)
}

// toTell is what a leader tells the others of a member's stance: nothing before it
// has heard it.
func (peer *member) toTell() election.Aside {
	switch {
	case peer.said.IsZero():
		return ""
	case peer.aside == election.Stands:
		return election.SaysStands
	}
	return peer.aside
}

// takeWord takes in what a leader says of a member's stance. An older process says
// nothing of it.
func (peer *member) takeWord(a election.Aside) {
	switch a {
	case "":
	case election.SaysStands:
		peer.aside = election.Stands
	default:
		peer.aside = a
	}
}

// sounds asks those higher members by whose word a claim would be unsafe: who did not
// stand, by a word from before this contest, may be about to claim, too; and so may
// one that stands, spoke since, and has not said that it takes the contest over.
// Nobody else is waited for, and nobody gets a second turn: a program with another
// idea of rank may stand and never take over.
func (m *Machine) sounds() bool {
	if m.cfg.NoDetector {
		return false
	}
	asks := m.sounding()
	for i := len(m.members) - 1; i > m.me; i-- {
		peer := &m.members[i]
		unsafe := peer.said.Before(m.newsFrom)
		if m.standsFor(peer) {
			unsafe = peer.said.After(m.newsFrom) && !peer.gaveTurn
		}
		if !unsafe || peer.sounded || peer.down || peer.Observer || peer.state != election.StateUp {
			continue
		}
		if !asks {
			m.soundedAt = m.now
		}
		peer.sounded, asks = true, true
		m.note("sounds", peer.ID, election.Token{}, "it may claim, too")
		m.send(i, election.Message{Kind: election.Query, Token: m.view})
		m.set(timerSound, m.cfg.Timing.DialTime()+4*m.cfg.Timing.TMax)
	}
	return asks
}

// overtaken reports whether a higher member has begun to stand while our claim was on
// its way to the disk: it has asked what we know, which did not tell of that, and is
// about to claim. It gets its turn, once.
func (m *Machine) overtaken() (yes bool) {
	for i := m.me + 1; i < len(m.members); i++ {
		peer := &m.members[i]
		if !m.cfg.NoDetector && m.standsFor(peer) && peer.stood.After(m.claimedAt) && !peer.gaveTurn {
			peer.gaveTurn, yes = true, true
			m.note("yields", peer.ID, m.next, "it stands since we claim")
		}
	}
	return yes
}

// begins notes that a contest begins: what members said of themselves before is old.
func (m *Machine) begins() {
	m.newsFrom = m.now
	for i := range m.members {
		m.members[i].gaveTurn = false
	}
}

// sounding reports whether such an answer is awaited.
func (m *Machine) sounding() bool {
	for i := range m.members {
		if peer := &m.members[i]; peer.sounded && !peer.down {
			return true
		}
	}
	return false
}

// endSounding goes on as soon as all have answered, or are down.
func (m *Machine) endSounding() {
	if !m.soundedAt.IsZero() && !m.sounding() {
		m.cancel(timerSound)
		m.sounded("all have answered or are down")
	}
}

// sounded claims after all, or leaves it to the contest if one of those asked stands.
func (m *Machine) sounded(why string) {
	stands := false
	for i := range m.members {
		peer := &m.members[i]
		if i > m.me && !peer.sounded && m.standsFor(peer) && !peer.said.Before(m.soundedAt) {
			stands, peer.gaveTurn = true, true
		}
		peer.sounded = false
	}
	m.soundedAt = time.Time{}
	switch {
	case !m.mayClaim():
	case stands:
		m.step(election.Event{Kind: election.Vacant, Token: m.view})
	default:
		m.take(why)
	}
}
