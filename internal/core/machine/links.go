package machine

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/outbox"
	"github.com/batuta-dev/batuta/internal/core/reaper"
	"github.com/batuta-dev/batuta/internal/core/side"
)

// crew is the members, and the connections to them.
type crew struct {
	ground
	roll
	metas meta.Metas
	beating
	connections
	removalNotices
	membership
	othersWork
	reaper reaper.Reaper
}

// awaitAnew waits for a member's reply for as long as it takes from now: the question leaves again.
func (m *crew) awaitAnew(i int) {
	if m.members[i].awaited {
		m.alarms.Extend(timerVouch, m.now.Add(m.answerTime(i, m.now)))
		m.alarms.Extend(timerDiscovery, m.now.Add(m.answerTime(i, m.now)))
	}
}

// What follows keeps a leadership known while it lasts: the leader's heartbeats, the members'
// acknowledgements, and the pings of members that the algorithm watches.

// beating is what a leader and its followers keep of the beats between them.
type beating struct {
	watched  election.ID // the algorithm has us watch it, besides the leader
	nextPing time.Time
}

// pings notes when the watched member is pinged next.
func (b *beating) pings(next time.Time) { b.nextPing = next }

// takeLead begins to lead.
func (m *crew) takeLead() {
	m.detector.Lead(m.now)
	m.statesChanged()
	for i := range m.members {
		peer := &m.members[i]
		peer.version = 0
		if peer.backoff == 0 {
			peer.redial = m.now // a member that the announcement misses receives it when it links
		}
		if peer.link {
			m.setState(i, election.StateUp) // our own link counts, not the last leader's report
		}
	}
	if m.cfg.NoDetector {
		return
	}
	m.detector.Announce(m.now)
	m.alarms.Wake(m.now)
}

// countSide records which members may come to acknowledge the leadership that this member claims. A
// member that it reaches only while the claim is written has not answered before it, and may have a
// leader.
func (m *crew) countSide() {
	m.others(func(_ int, peer *member) {
		peer.mayFollow = !peer.down && peer.state != election.StateUnreachable && peer.state != election.StateDown
	})
}

// acked handles an acknowledgement. The stamp is ours, come back.
func (m *crew) acked(from int, msg *election.Message) {
	if !m.tenure.Beats() {
		return
	}
	m.detector.Acked(m.now, m.origin.Add(time.Duration(msg.Stamp)))
	m.members[from].version = msg.Version
	if m.tenure.Mine(msg.Token) {
		m.members[from].ackedAt = m.now
	}
	if m.members[from].epoch != msg.Token.Epoch {
		m.members[from].epoch = msg.Token.Epoch
		m.statesChanged()
	}
}

// takeLeader begins to follow.
func (m *crew) takeLeader() {
	m.detector.Settle()
	if m.cfg.NoDetector {
		return
	}
	m.alarms.Wake(m.detector.SilentAt())
	if i := m.index[m.tenure.Held().Leader.ID]; !m.members[i].link {
		m.members[i].anew = true
		m.members[i].redial = m.now
		m.alarms.Wake(m.members[i].redial)
	}
}

// watchToo watches id as well as the leader.
func (m *crew) watchToo(id election.ID) {
	if m.watched == id || m.cfg.NoDetector {
		return
	}
	m.watched = id
	m.pings(m.now)
	m.alarms.Wake(m.now)
}

// AdmitJoin reports whether e may join through this member: nil, or why not ([election.ErrRemoved],
// [election.ErrSameID], [election.ErrOldIncarnation], [election.ErrMixedKind], [election.ErrFull],
// [election.ErrTooManyJoins], [election.ErrWornOut]). A removed member may not, whatever it reports
// of its entry: that it was added again comes from a member. It changes nothing.
func (m *crew) AdmitJoin(now time.Time, e election.Member, incarnation uint64) error {
	if err := m.roster.MayEnter(e, m.cfg.Closed); err != nil {
		return err
	}
	if err := m.Admit(now, e.Rank, incarnation); err != nil && err != election.ErrNotMember && err != election.ErrJoining {
		return err
	}
	if _, changes := m.roster.Newcomer(e); changes && m.roster.Crowded(now) {
		return election.ErrTooManyJoins
	}
	return nil
}

// side is the side of a partition that this member is on. A leader counts the members that
// acknowledge it, once all that it reaches have had the time to. A follower has that from its
// leader, as long as it receives the heartbeats.
func (m *crew) side() side.Side {
	s := side.Side{Leader: m.tenure.Held().Leader, Begun: m.tenure.Base(), Own: m.tenure.Leading()}
	switch {
	case m.cfg.NoDetector || !m.tenure.Live() || m.detector.Suspected():
		return s
	case !m.tenure.Leading():
		if age := m.leaderAge(); age >= 0 && age <= m.cfg.Timing.Heartbeat+m.cfg.Timing.TMax {
			s.Size, s.Young = m.tenure.Side()
		}
		return s
	}
	s.Size = m.count(func(peer *member) bool { return m.now.Sub(peer.ackedAt) <= m.cfg.Timing.Bears() })
	if m.now.Sub(m.tenure.BegunAt()) < 2*m.cfg.Timing.TMax+m.cfg.Timing.Heartbeat {
		s.Young, s.Size = true, max(s.Size, m.count(func(peer *member) bool { return peer.mayFollow }))
	}
	return s
}

// count counts this member and the voters among the others for which those holds.
func (r *roll) count(those func(*member) bool) int {
	n := 1
	r.others(func(_ int, peer *member) {
		if !peer.Observer && those(peer) {
			n++
		}
	})
	return n
}

// outweighs reports whether the present leadership goes on, though the message that is being
// handled has a higher leadership: a partition has healed, and this side is the greater.
func (m *crew) outweighs(t election.Token) bool {
	msg := m.taking
	if !m.tenure.Live() || msg == nil || msg.Token != t || msg.Draining || t.Leader.ID == m.tenure.Held().Leader.ID || m.tenure.Leading() && !m.seen.MayRaise(&m.disk) {
		return false
	}
	theirs := side.Side{Leader: t.Leader, Size: msg.Side, Young: msg.Young, Begun: cmp.Or(msg.Renews, t.Epoch)}
	return m.side().Outweighs(theirs, !m.cfg.NoPreempt)
}

// What follows keeps the connections: which members may have a link, which to dial, and when a link
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
	removedSince  time.Time   // since when members have refused this member as removed; zero: they have not
	removedAt     time.Time   // when a member last did
	answering     election.ID // a member of which a new process answers, and has not been received yet
	replacing     bool        // this member has no leader, and finds the old process of such a member down
	claimDeferred bool        // we would have claimed just then
}

// answersAs notes of which member a new process answers; None: it has been received.
func (c *connections) answersAs(id election.ID) { c.answering = id }

// Admit returns nil if a connection on which a process presents itself as
// peer may stay open, or why it must be refused ([election.ErrNotMember], [election.ErrJoining],
// [election.ErrRemoved], [election.ErrSameID], [election.ErrOldIncarnation]). It changes nothing.
func (m *crew) Admit(now time.Time, peer election.Rank, incarnation uint64) error {
	i, ok := m.index[peer.ID]
	if !ok {
		if e, _ := m.Entry(peer.ID); e.Departure == election.Removed {
			return election.ErrRemoved
		}
		if m.cfg.Joins && len(m.members) == 1 && !m.tenure.Live() {
			return election.ErrJoining // it has no list by which to refuse a member, nor a cluster of its own
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
func (m *crew) AdmitAnswer(now time.Time, peer election.Rank, incarnation uint64) error {
	if i, ok := m.index[peer.ID]; ok && i != m.me && incarnation > m.members[i].incarnation {
		return nil
	}
	if peer.ID == m.notifying && m.notifying != election.None || m.isDeparting(peer.ID) >= 0 {
		return nil // it was dialed to be notified, or because its work has still to stop
	}
	return m.Admit(now, peer, incarnation)
}

// lives reports whether the process that is known by a member's id has been received within T. If
// it has not, a different process may have the id, even an older process: of two that claimed it,
// it is the process that stayed. If it was this process that did not listen, an existing link is
// enough.
func (m *crew) lives(peer *member, now time.Time) bool {
	return now.Sub(peer.heard) <= m.cfg.Timing.T() || peer.link && m.detector.Stalled(m.now, now, m.alarms.Deadline(), m.tenure.Beats())
}

// hearsay reports whether a member's leadership is known only indirectly: it may be that of a newer
// process than the process we knew.
func (m *crew) hearsay(leader election.ID) bool {
	return m.detector.Reported() && (m.tenure.LedBy(leader) || m.tenure.Next().Leader.ID == leader)
}

// hangUp closes the link to a member.
func (m *crew) hangUp(i int) {
	peer := &m.members[i]
	m.do(election.Action{Kind: election.Hangup, To: peer.ID})
	peer.link, peer.anew, peer.redial = false, false, m.now
	peer.proof.settle()
	peer.Loses(outbox.NeedsProof)
}

// lasting reports whether the far end keeps the link to a member for as long as silence is
// tolerated: between a leader and its members, also while its work has still to stop.
func (m *crew) lasting(peer *member) bool {
	return m.beatsPass(peer) || peer.works(m.now, m.cfg.Timing.Bears())
}

// beatsPass reports whether heartbeats pass between this member and another: one of them leads.
func (m *crew) beatsPass(peer *member) bool { return m.tenure.Beats() || m.tenure.LedBy(peer.ID) }

// silent is when a link will have been silent for T: nothing received, and nothing asked for which
// the answer may be on its way. A member that asks again waits no longer than 2·T for the first
// answer. On a lasting link, and to the member that the algorithm watches, the silence is what is
// tolerated, and counts from the first question.
func (m *crew) silent(peer *member) time.Time {
	t := m.cfg.Timing.T()
	if m.lasting(peer) || m.watched == peer.ID {
		return m.detector.Excuse(later(peer.heard, peer.Pending).Add(m.cfg.Timing.Bears() + 1))
	}
	answered := peer.Comes.Add(t)
	if most := peer.Pending.Add(2 * t); answered.After(most) {
		answered = most
	}
	return m.detector.Excuse(later(answered, peer.heard.Add(t)).Add(1))
}

// reviewProof weighs what a message about the leadership of i shows of the end of its process.
func (m *crew) reviewProof(i int, msg *election.Message) {
	peer := &m.members[i]
	if peer.down && peer.proof.disputedBy(msg) {
		if peer.proof.disputed = open; m.shouldDial(i) {
			m.dial(i)
		}
	}
	if peer.proof.refutedBy(msg, m.now) {
		m.refute(i)
	}
}

// refute: a process lives. If a refusal was taken for its end, a firewall refuses in its name: it
// counts as silent from now on when a dial is refused, until a new process has its id.
func (m *crew) refute(i int) {
	peer := &m.members[i]
	if !peer.proof.taken.IsZero() && !peer.proof.refuted {
		peer.proof.refuted, peer.proof.disputed = true, open
		m.note("doubts", peer.ID, election.Token{}, "it lives, though its address has refused a connection")
	}
}

// removedForGood reports whether members have refused this member as removed for T, and none has
// admitted it. A link counts as admission, unless the entry in the refusal is no older than our
// own: two removed members would otherwise keep each other in, while a member that was added again
// is admitted by those that know.
func (m *crew) removedForGood(tombstone election.Member) bool {
	news := tombstone.Version == 0 || m.outdates(tombstone)
	if news && m.linked() || m.now.Sub(m.removedAt) > m.farT()+m.cfg.Timing.Heartbeat {
		m.removedSince = m.now
	}
	m.removedAt = m.now
	return m.now.Sub(m.removedSince) > m.cfg.Timing.T()
}

// jitter draws from the seed a duration below d.
func jitter(from *rand.PCG, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(rand.New(from).Int64N(int64(d)))
}

// dialAll dials the members to which this member should be connected and is not: a leader, and a
// member without a leader, dial every member. A follower dials its leader, and the members that
// refuse it: while they do it does not lead.
//
// Without a leader that is dialWave members at a time: in a large cluster all would otherwise hold
// n² connections, and the leader to be reaches every member anyway.
func (m *crew) dialAll() {
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
		if m.shouldDial(i) && !m.now.Before(peer.redial) && (room > 0 || m.lasting(peer) || peer.ID == m.watched) {
			room--
			m.dial(i)
		}
	})
}

// dial dials a member.
func (m *crew) dial(i int) {
	m.members[i].dialing = true
	m.do(election.Action{Kind: election.Dial, To: m.members[i].ID})
}

func (m *crew) shouldDial(i int) bool {
	peer := &m.members[i]
	if peer.link || peer.dialing {
		return false
	}
	return m.tenure.Beats() || !m.tenure.Live() || m.tenure.LedBy(m.members[i].ID) || peer.ID == m.watched || peer.refusal == election.ErrNotMember && m.disagree(peer)
}

// setState records what is known of a member and reports when it has changed.
func (m *crew) setState(i int, s election.MemberState) {
	peer := &m.members[i]
	if peer.state == s || i == m.me {
		return
	}
	peer.state = s
	peer.mayFollow = peer.mayFollow && s != election.StateUnreachable && s != election.StateDown
	m.statesChanged()
	m.do(election.Action{Kind: election.Notify, Member: peer.ID, Status: s})
}

// rejoin has the driver ask a member, or (None) each through which this member joins, to admit it.
// Before its start it is asking already.
func (m *crew) rejoin(through election.ID) {
	if m.tenure.Started() {
		m.do(election.Action{Kind: election.Rejoin, To: through})
	}
}

// What follows notifies the removed. A member that is away when it is removed learns of it when it
// returns to any that is on its list; but a member that has removed, on its side, all that could
// notify it would never ask. A leader therefore dials those it has still to notify.

// removalNotices is what a leader has still to send to the removed.
type removalNotices struct {
	unnotified  []election.ID // removed, and not known to have received that; never changed in place
	notifying   election.ID   // the removed member that is dialed for it, or notified; None: there is none
	notifyUntil time.Time     // when it hangs up
	nextNotice  time.Time     // not before
	yields      bool          // it ends, for the member that it has removed, when that is on disk
}

// mustNotify records which processes a leader has to notify that they are members no more.
func (n *removalNotices) mustNotify(e election.Member, now time.Time) {
	if e.Departure == election.Removed && !slices.Contains(n.unnotified, e.ID) {
		n.unnotified = append(slices.Clone(n.unnotified), e.ID)
		n.nextNotice = later(n.nextNotice, now.Add(maxBackoff)) // it was notified on its link, if there was any
	}
}

// noticeDue is when there is a notice to look at; zero: there is none.
func (n *removalNotices) noticeDue(leading bool, soon time.Time) time.Time {
	switch {
	case n.notifying != election.None:
		return n.notifyUntil
	case len(n.unnotified) > 0 && leading:
		return later(n.nextNotice, soon)
	}
	return time.Time{}
}

func (n *removalNotices) notified(id election.ID) {
	n.unnotified = slices.DeleteFunc(slices.Clone(n.unnotified), func(other election.ID) bool { return other == id })
}

// gives has this member end for the member that it has removed.
func (n *removalNotices) gives(way bool) { n.yields = way }

// Yields reports whether this member ends for a member that it has removed and that has removed it,
// as soon as its disk answers.
func (n *removalNotices) Yields() bool { return n.yields }

// endYield ends this member as soon as its disk has it that the winner holds, or refuses: otherwise
// it would remove the winner when it is added again.
func (m *crew) endYield() {
	if m.yields && !m.disk.Busy() {
		m.gives(false)
		m.do(election.Action{Kind: election.Halt, Err: election.ErrRemoved})
	}
}
