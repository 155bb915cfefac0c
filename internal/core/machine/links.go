package machine

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps the connections: which members may have a link, which to dial, and when a link
// has served. The star is that of docs/sources.md, "Scrapper": a lasting connection between each
// member and its leader, temporary links for everything else.

// In a large cluster not everyone is asked, or dialed, at once: n members would
// hold n² connections between them.
const (
	probeWave = 32 // members that a discovery asks at a time
	dialWave  = 32 // members that a member without a leader is connected to
)

// How often a dial or a disk that fails is tried again.
const (
	maxBackoff = time.Second
	saveRetry  = time.Second
)

// connections is what this member has to remember of connections from further processes.
type connections struct {
	removedSince  time.Time // since when members have refused this member as removed; zero: they have not
	removedAt     time.Time // when a member last did
	replacing     bool      // a member's new process answers, and nothing of it has been received yet
	claimDeferred bool      // we would have claimed just then
}

// defersClaim reports whether a claim has to wait until a new process has been received.
func (c *connections) defersClaim() bool {
	c.claimDeferred = c.claimDeferred || c.replacing
	return c.replacing
}

// Admit reports whether a connection on which a process presents itself as
// peer may stand: nil, or why it must be refused ([election.ErrNotMember], [election.ErrRemoved],
// [election.ErrSameID], [election.ErrOldIncarnation]). It changes nothing.
func (m *Machine) Admit(now time.Time, peer election.Rank, incarnation uint64) error {
	i, ok := m.index[peer.ID]
	if !ok {
		if e, listed := m.Entry(peer.ID); listed && e.Departure == election.Removed {
			return election.ErrRemoved
		}
		return election.ErrNotMember
	}
	known := &m.members[i]
	switch {
	case i == m.me:
		return election.ErrSameID
	case incarnation < known.incarnation && m.lives(known, now):
		return election.ErrOldIncarnation
	case incarnation > known.incarnation && known.link && m.lives(known, now):
		return election.ErrSameID // the process that we receive is different
	}
	return nil
}

// AdmitAnswer is [Machine.Admit] for a process that has answered our own dial: it is where the list
// has that member, so a newer incarnation is the member, and the process that was received under
// its id is gone.
func (m *Machine) AdmitAnswer(now time.Time, peer election.Rank, incarnation uint64) error {
	if i, ok := m.index[peer.ID]; ok && i != m.me && incarnation > m.members[i].incarnation {
		return nil
	}
	if peer.ID == m.notifying && m.notifying != election.None {
		return nil // it was dialed to be notified
	}
	return m.Admit(now, peer, incarnation)
}

// lives reports whether the process that is known by a member's id has been received within T. If
// it has not, a different process may have the id, even an older process: of two that claimed it,
// it is the process that stayed. If it was this process that did not listen, an existing link is
// enough.
func (m *Machine) lives(peer *member, now time.Time) bool {
	return now.Sub(peer.heard) <= m.cfg.Timing.T() || peer.link && !m.noLinks && m.detector.Stalled(m.now, now, m.alarms.Deadline(), m.tenure.Beats())
}

// linkUp records a connection. A different incarnation means that the old process is gone.
func (m *Machine) linkUp(rank election.Rank, incarnation uint64) {
	i, ok := m.index[rank.ID]
	if !ok || i == m.me {
		return
	}
	old := m.members[i].incarnation
	if old != incarnation {
		if incarnation < old && m.lives(&m.members[i], m.now) {
			return // a late message of a dead process
		}
		if old != 0 {
			m.replaced(i)
		}
		m.members[i].incarnation = incarnation
		m.members[i].eligibility, m.members[i].draining = m.members[i].Eligibility(), false
		m.members[i].version, m.members[i].proof = 0, proof{}
		m.toldRank(rank)
		i = m.index[rank.ID]
	} else if m.members[i].proof.taken {
		m.refute(i)
	}
	peer := &m.members[i]
	again := !peer.replied && (!peer.awaited || !peer.rebuffedAt.IsZero()) // our question may have been lost
	lost := peer.which(isLost)
	if peer.link && !peer.pending.IsZero() && m.now.Sub(peer.pending) > 2*m.cfg.Timing.TMax {
		lost = peer.unconfirmed // a second connection: the old connection was broken, it seems
	}
	peer.link, peer.dialing, peer.anew, peer.backoff, peer.rebuffedAt = true, false, false, 0, time.Time{}
	peer.pingers, peer.wants = nil, nil
	pending := peer.pending
	m.hear(i)
	if peer.comes.After(m.now) {
		peer.pending = pending // what goes with our own dial is still on its way
	}
	if m.tenure.LedBy(m.members[i].ID) {
		m.detector.Greet(m.now)
	}
	m.refuses(i, nil)
	m.setState(i, election.StateUp)
	m.alarms.Wake(m.now.Add(m.cfg.Timing.T()))
	m.repeat(i, lost)
	if !m.cfg.NoDetector {
		m.sendMeta(i, m.metas.Own())
	}
	if m.claimDeferred {
		m.claimDeferred = false
		if m.undecided() {
			m.step(election.Event{Kind: election.LeaderLost, Token: m.tenure.Held()})
		}
	}
	switch {
	case m.tenure.Beats():
		m.detector.CountFrom(m.now) // it has received us; only now can a beat of ours reach it
		m.post(i, m.newBeat(peer.version != m.version))
	case m.mode == asks && again:
		m.probe(i)
	case m.tenure.Started() && m.undecided() && m.eligibility() != election.Eligible:
		m.send(i, election.Message{Kind: election.Probe, Token: m.tenure.Held()}) // it calls no election that would show it
	}
}

// replaced: a new process has a member's id. It owes the answer that the old process was asked for,
// and does not know what that process knew.
func (m *Machine) replaced(i int) {
	peer := &m.members[i]
	owed := peer.awaited
	peer.link = false // the link was the old process's
	peer.awaited, peer.replied = false, false
	if !m.hearsay(peer.ID) {
		m.replacing = m.tenure.Leaderless() // the election goes on with the new process, not without the old process
		m.markDown(i, election.CauseCrashed, true, "another incarnation answers")
		m.replacing = false
	}
	if owed && m.detector.Suspected() {
		m.probe(i)
	}
}

// hearsay reports whether a member's leadership is known only indirectly: it may be that of a newer
// process than the process we knew.
func (m *Machine) hearsay(leader election.ID) bool {
	return m.detector.Reported() && (m.tenure.LedBy(leader) || m.tenure.Next().Leader.ID == leader)
}

// linkDown dials again at once: a refusal proves that the process is gone.
func (m *Machine) linkDown(id election.ID) {
	i, ok := m.index[id]
	if !ok || !m.members[i].link {
		return
	}
	peer := &m.members[i]
	peer.link, peer.anew = false, true
	peer.redial = m.now
	m.alarms.Wake(peer.redial)
	lost := peer.unconfirmed
	if peer.awaited && !slices.ContainsFunc(lost, isQuestion) {
		m.probe(i) // it received something older, or sent something newer, and the question may be lost
	}
	m.repeat(i, lost)
}

// hangUp closes the link to a member.
func (m *Machine) hangUp(i int) {
	peer := &m.members[i]
	m.do(election.Action{Kind: election.Hangup, To: peer.ID})
	peer.link, peer.anew, peer.redial = false, false, m.now
	peer.loses(needsProof)
}

// stale reports whether a link has been idle for so long that its far end may just be closing it:
// what is sent then is lost, so it goes over a new link. The last question keeps the far end from
// that for T.
func (peer *member) stale(now time.Time, timing election.Timing) bool {
	return now.Sub(peer.heard) > timing.T()/2 && now.Sub(peer.used) > timing.T()-timing.TMax
}

// hangUpSilent closes every link on which nothing came for T: temporary links that have served
// (docs/sources.md, "Scrapper"), and, when silence is no longer tolerated, links whose far end may
// be gone.
func (m *Machine) hangUpSilent() {
	m.others(func(i int, peer *member) {
		if !peer.link || m.now.Before(m.silent(peer)) {
			return
		}
		m.hangUp(i)
		switch {
		case peer.ID == m.watched && !m.tenure.LedBy(m.members[i].ID) && !peer.down:
			m.pingIndirectly(i)
		case m.tenure.Beats() && peer.state != election.StateDown:
			m.setState(i, election.StateUnreachable)
		}
	})
}

// silent is when a link will have been silent for T: nothing received, and nothing asked for which
// the answer may be on its way. A member that asks again waits no longer than 2·T for the first
// answer. Between a leader and its members, and to the member that the algorithm watches, the
// silence is what is tolerated, and counts from the first question.
func (m *Machine) silent(peer *member) time.Time {
	t := m.cfg.Timing.T()
	if m.tenure.Beats() || m.tenure.LedBy(peer.ID) || m.watched == peer.ID {
		return m.detector.Excuse(later(peer.heard, peer.pending).Add(m.cfg.Timing.Bears() + 1))
	}
	answered := peer.comes.Add(t)
	if most := peer.pending.Add(2 * t); answered.After(most) {
		answered = most
	}
	return m.detector.Excuse(later(answered, peer.heard.Add(t)).Add(1))
}

// dialFailed: refused means that the process is gone; silence is only silence.
// With why, a live member refuses us, by entry, which it has of us.
func (m *Machine) dialFailed(id election.ID, refused bool, why error, entry election.Member) {
	if (why == election.ErrOldIncarnation || why == election.ErrSameID) && entry.ID == m.cfg.Self.ID {
		m.merge([]election.Member{entry}, id) // a member that refuses us sends us no list
	}
	i, ok := m.index[id]
	if !ok {
		return
	}
	peer := &m.members[i]
	refused = refused && !peer.proof.refuted
	again := m.now.Sub(peer.missed) > m.cfg.Timing.Heartbeat
	peer.dialing, peer.anew, peer.missed = false, false, m.now
	if peer.link {
		m.repeat(i, peer.which(needsProof)) // it reached us meanwhile, but what went with our dial is lost
		if peer.awaited && again {
			m.probe(i)
		}
		return
	}
	peer.dialLost(m.now, m.farT())
	m.refuses(i, why)
	if refused || why != nil && why != election.ErrForeign {
		peer.via, peer.viaAt, peer.pingers = election.None, time.Time{}, nil
	}
	m.dialedInVain(i)
	switch why {
	case election.ErrRemoved, election.ErrSameID, election.ErrOldIncarnation:
		// It still knows an earlier process with our id, or a newer process, or does not know that
		// we were added again. Its answer is owed: we ask until it knows better, or until no member
		// has accepted us for T.
		if why == election.ErrRemoved && m.removedForGood(entry) {
			m.removedSelf()
			return
		}
		peer.redial = m.now.Add(m.cfg.Timing.Heartbeat)
		m.alarms.Wake(peer.redial)
		if peer.rebuffedAt = m.now; why == election.ErrRemoved && m.outdates(entry) && m.linked() {
			peer.rebuffedAt = time.Time{} // we need not wait: a member will correct it
			m.unreached(i)
		}
		return
	}
	if why == election.ErrNotMember && !m.disagree(peer) {
		m.rejoin(id)
	}
	peer.rebuffedAt = time.Time{}
	peer.backoff = min(max(2*peer.backoff, m.cfg.Timing.Heartbeat), maxBackoff)
	peer.redial = m.now.Add(peer.backoff - jitter(&m.random, peer.backoff/4))
	m.alarms.Wake(peer.redial)
	if refused {
		if peer.proof.taken = true; m.tenure.LedBy(peer.ID) {
			peer.proof.under = m.tenure.Held().Epoch
		}
		m.markDown(i, election.CauseCrashed, true, "it refuses the connection")
		return
	}
	m.unreached(i)
}

// refute: a process lives, though a refusal was taken for its end. A firewall refuses in its name,
// so that it counts as silent from now on when a dial is refused, until a new process has its id.
func (m *Machine) refute(i int) {
	peer := &m.members[i]
	if !peer.proof.refuted {
		peer.proof.refuted = true
		m.note("doubts", peer.ID, election.Token{}, "it lives, though its address has refused a connection")
	}
}

// unreached: a member has not answered, and may live.
func (m *Machine) unreached(i int) {
	peer := &m.members[i]
	if m.now.Sub(peer.heard) > m.cfg.Timing.T() {
		if peer.state != election.StateDown {
			m.setState(i, election.StateUnreachable)
		}
		if peer.asked(m.self) || peer.awaited || m.shouldDial(i) {
			m.pingIndirectly(i)
		}
	}
	m.unanswered(i)
}

// removedForGood reports whether members have refused this member as removed for T, and none has
// admitted it. A link counts as admission, unless the entry in the refusal is no older than our
// own: two removed members would otherwise keep each other in, while a member that was added again
// is admitted by those that know.
func (m *Machine) removedForGood(tombstone election.Member) bool {
	news := tombstone.Version == 0 || m.outdates(tombstone)
	if m.removedSince.IsZero() || news && m.linked() || m.now.Sub(m.removedAt) > m.farT()+m.cfg.Timing.Heartbeat {
		m.removedSince = m.now
	}
	m.removedAt = m.now
	return m.now.Sub(m.removedSince) > m.cfg.Timing.T()
}

// linked reports whether a connection stands to anyone.
func (r *roll) linked() bool {
	return slices.ContainsFunc(r.members, func(e member) bool { return e.link })
}

// outdates reports whether our entry is above the entry by which a member refuses us: it will hold
// when the lists meet.
func (r *roll) outdates(tombstone election.Member) bool {
	own, _ := r.Entry(r.self)
	return tombstone.Version > 0 && own.Version > tombstone.Version
}

// disagree reports whether a member that does not know us, and we know, are both on our list only
// by configuration. The two configurations are an operator's to fix. Otherwise the member that
// admitted us has died before it notified the rest, or they have lost what they knew, or have
// received late that we had once left.
func (r *roll) disagree(peer *member) bool {
	own, _ := r.Entry(r.self)
	return !r.joins && own.Version == 0 && peer.Version == 0
}

// jitter draws from the seed a duration below d.
func jitter(from *rand.PCG, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.New(from).Int64N(int64(d)))
}

// dialAll dials the members to which this member should be connected and is not: a leader, and a
// member without a leader, dial every member, a follower its leader.
//
// Without a leader that is dialWave members at a time: in a large cluster all would otherwise hold
// n² connections, and the leader to be reaches every member anyway.
func (m *Machine) dialAll() {
	room := len(m.members)
	if !m.tenure.Live() && !m.tenure.Draining() {
		room = dialWave
	}
	for i := range m.members {
		if m.members[i].link || m.members[i].dialing {
			room--
		}
	}
	m.others(func(i int, peer *member) {
		if m.shouldDial(i) && !m.now.Before(peer.redial) && (room > 0 || m.tenure.LedBy(m.members[i].ID) || peer.ID == m.watched) {
			room--
			peer.dialing = true
			m.do(election.Action{Kind: election.Dial, To: peer.ID})
		}
	})
}

func (m *Machine) shouldDial(i int) bool {
	peer := &m.members[i]
	if peer.link || peer.dialing {
		return false
	}
	return m.tenure.Beats() || !m.tenure.Live() || m.tenure.LedBy(m.members[i].ID) || peer.ID == m.watched
}
