package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// listChunk is how many entries a message carries.
const listChunk = 128

// membership is this member's own state on the members' lists.
type membership struct {
	place    place
	nextPull time.Time // not before is anyone asked for its list
}

// place is this member's own state.
type place uint8

const (
	onList  place = iota
	offList       // it has left, or members have it so: it is no candidate until it is admitted again
	removed       // it was sent away: its process is about to end
)

// List is the member list, tombstones included, in the order of the ids.
func (r *roll) List() []election.Member { return slices.Clone(r.roster.All()) }

// Knows reports whether id is a member now.
func (r *roll) Knows(id election.ID) bool {
	_, ok := r.index[id]
	return ok
}

// Entry is a member's entry on the list, a tombstone too.
func (r *roll) Entry(id election.ID) (election.Member, bool) { return r.roster.Entry(id) }

// Fits reports whether the list has room for e, in the place of an entry with the same id if there
// is any. An entry that is no larger than before fits.
func (r *roll) Fits(e election.Member) bool { return r.roster.Fits(e) }

// change puts an entry of our own making on the list, above what it replaces.
func (m *Machine) change(e election.Member) {
	if e, changes := m.roster.Above(m.now, e); changes {
		m.merge([]election.Member{e}, m.cfg.Self.ID)
	}
}

// merge takes in the entries that hold over ours, as from has them, and passes
// them on.
func (m *Machine) merge(entries []election.Member, from election.ID) {
	news, stale := m.roster.Merge(m.now, entries)
	if i, ok := m.index[from]; ok && i != m.me && m.members[i].link && len(stale) > 0 {
		m.sendList(i, stale) // it still has entries that were forgotten
	}
	if len(news) == 0 {
		return
	}
	m.disk.ListChanged()
	m.spread(news, from)
	for _, e := range news {
		if e.ID != m.cfg.Self.ID && !m.cfg.NoDetector {
			m.mustNotify(e, m.now)
		}
		m.applyEntry(e)
	}
	m.save()
}

// spread sends news over each link, also to the member that it concerns: a leader so reaches all, a
// follower its leader. The rest learn by the digests. Without a leader only its source sends the
// news: each to each would be n² messages.
func (m *Machine) spread(news []election.Member, from election.ID) {
	if m.cfg.NoDetector || from != m.cfg.Self.ID && !m.tenure.Live() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link && peer.ID != from {
			m.sendList(i, news)
		}
	})
}

func (m *Machine) sendList(to int, entries []election.Member) {
	for chunk := range slices.Chunk(entries, listChunk) {
		m.send(to, election.Message{Kind: election.Members, List: chunk})
	}
}

// compareLists records whether a member's list differs from ours, and asks for it.
func (m *Machine) compareLists(i int, msg *election.Message) {
	if m.cfg.NoDetector || msg.Kind == election.Members {
		return // the rest of its list may be on its way
	}
	if m.members[i].differs = msg.Digest != m.roster.Digest() || m.metas.Differs(msg.MetaDigest); m.members[i].differs {
		m.pull(i)
	}
}

// pull asks a member for its list, which differs, as soon as it may: a single member is asked in a
// heartbeat, and none twice in T. While a hundred join at once all lists differ, and if each were
// sent to all there would be n³ entries under way.
func (m *Machine) pull(i int) {
	peer := &m.members[i]
	if !peer.link {
		return
	}
	if at := later(peer.nextPull, m.nextPull); m.now.Before(at) {
		m.alarms.Wake(at)
		return
	}
	peer.differs = false
	m.nextPull, peer.nextPull = m.now.Add(m.cfg.Timing.Heartbeat), m.now.Add(m.cfg.Timing.T())
	m.send(i, election.Message{Kind: election.GetMembers})
}

// applyEntry makes the members agree with a changed entry.
func (m *Machine) applyEntry(e election.Member) {
	i, ok := m.index[e.ID]
	switch {
	case e.ID == m.cfg.Self.ID:
		switch e.Departure {
		case election.Removed:
			m.removedSelf()
		case election.Left:
			m.delisted()
		default:
			m.relisted()
			m.ranked(e)
			m.askElsewhere()
		}
	case e.Departure == election.Present && ok:
		old := m.members[i]
		moved, reranked := old.Address != e.Address, old.Rank != e.Rank || old.Version == 0 // see rankOf
		m.members[i].Member = e
		m.rank()
		if reranked {
			m.reconsiderRank()
		}
		if moved {
			m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: election.StateAdded, Address: e.Address})
			if state := m.members[m.index[e.ID]].state; state != election.StateUnknown {
				m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: state}) // that has not changed
			}
		}
	case e.Departure == election.Present:
		m.note("adds", e.ID, election.Token{}, "at "+e.Address)
		// It may not know us yet, and reaches its leader itself: dial it later.
		soon := m.now.Add(2 * m.cfg.Timing.TMax)
		known := member{Member: e, eligibility: e.Eligibility(), redial: soon, since: m.now}
		if d := m.isDeparting(e.ID); d >= 0 {
			known.draining, known.saidAt = true, m.departing[d].heard
			m.departed(d, "it is on the list again")
		}
		m.enroll(known)
		m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: election.StateAdded, Address: e.Address})
		m.alarms.Wake(soon)
	case ok:
		m.dropMember(i, e)
	}
}

// ranked records this member's priority on the list: a priority that a user has set holds, any
// different priority is corrected to what the process itself was started with, or has received
// since.
func (m *Machine) ranked(e election.Member) {
	switch {
	case e.Priority == m.cfg.Self.Priority:
	case e.Pinned:
		m.note("ranks", m.cfg.Self.ID, election.Token{}, fmt.Sprintf("with priority %d: a user has set it", e.Priority))
		m.cfg.Self.Priority = e.Priority
		m.members[m.me].Rank = e.Rank
		m.rank()
		m.reconsiderRank()
	default:
		e.Priority = m.cfg.Self.Priority
		m.change(e)
	}
}

// toldRank records the rank with which a new process has presented itself: its report of its own
// priority holds over what is on the list, and goes to all. A configuration does not have it, and
// the address there stays each operator's own.
func (m *Machine) toldRank(rank election.Rank) {
	e, _ := m.Entry(rank.ID)
	if e.Rank == rank {
		return
	}
	e.Fixed = e.Fixed || e.Version == 0
	e.Rank, e.Pinned = rank, false
	m.change(e)
}

// rankOf is what a leader ranks by now: what its token has, unless that was changed on the list
// since.
func (r *roll) rankOf(leader election.Rank) election.Rank {
	if e, ok := r.Entry(leader.ID); ok && e.Version > 0 {
		return e.Rank
	}
	return leader
}

// reconsiderRank has this member take over soon if it outranks the leader now.
func (m *Machine) reconsiderRank() {
	if m.tenure.Started() && m.mayPreempt() {
		m.alarms.Set(timerHandover, m.now.Add(m.cfg.Timing.Heartbeat))
	}
}

// dropMember drops a member that has left or was removed.
func (m *Machine) dropMember(i int, e election.Member) {
	cause, why := election.CauseResigned, "it left the cluster"
	if e.Departure == election.Removed {
		cause, why = election.CauseRemoved, "it was removed"
	} else if e.Forgotten() && m.members[i].New {
		why = "it was let in and never came"
	}
	m.note("drops", e.ID, election.Token{}, why)
	peer := &m.members[i]
	switch leads := m.tenure.LedBy(m.members[i].ID) || m.tenure.Next().Leader.ID == e.ID || peer.draining; {
	case leads && peer.link && !m.cfg.NoDetector:
		m.keeps(peer) // its work has still to stop
		m.note("awaits", peer.ID, election.Token{}, "the end of its work")
		m.wakeForDraining()
	case peer.link || peer.dialing:
		m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: election.StateRemoved})
		m.do(election.Action{Kind: election.Hangup, To: e.ID})
	default:
		m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: election.StateRemoved})
	}
	m.strike(i)
	m.metas.Drop(e.ID)
	m.step(election.Event{Kind: election.PeerDown, Peer: e.ID})
	switch {
	case m.tenure.LedBy(e.ID):
		m.loseLeader(cause, true, why)
	case m.tenure.Next().Leader.ID == e.ID:
		m.abandon(why)
	}
	m.endIfAllReplied()
}

// removedSelf: the members have removed this member.
func (m *Machine) removedSelf() {
	m.place = removed
	if m.yields {
		m.place = offList // until that is on disk
	}
	m.drop()
	m.leaveLeadership("this member was removed from the cluster")
	if !m.yields {
		m.do(election.Action{Kind: election.Halt, Err: election.ErrRemoved})
	}
}

// leaveLeadership gives up the lead of a process that is no member any more; a follower only loses
// its leader.
func (m *Machine) leaveLeadership(why string) {
	if m.tenure.Leading() {
		m.giveUp(election.CauseRemoved, why, "")
		return
	}
	m.lose(election.CauseRemoved, true, why)
}

// delisted: members have learned late that this member had left, which has come back since. It is
// no candidate until a member admits it again.
func (m *Machine) delisted() {
	if m.place != onList {
		return // it is leaving
	}
	m.place = offList
	m.leaveLeadership("the others have it that this member has left")
	if m.tenure.Mine(m.tenure.Next()) {
		m.drop()
	}
	m.rejoin(election.None)
}

// rejoin has the driver ask a member, or (None) each through which this member joins, to admit it.
// Before its start it is asking already.
func (m *Machine) rejoin(through election.ID) {
	if m.tenure.Started() {
		m.do(election.Action{Kind: election.Rejoin, To: through})
	}
}

// relisted: this member is on the list again.
func (m *Machine) relisted() {
	if m.place != offList {
		return // it never was off the list, or its process is about to end
	}
	m.place = onList
	m.enterPhaseWithoutLeader()
	m.preempt()
	if m.undecided() {
		m.discover("it is on the list again")
	}
}

// add puts a member on the list because the user asks for it, a removed member too. What the
// request leaves out stays for a known member: its address, its priority unless it is given, and
// that it only follows.
func (m *Machine) add(e election.Member, withPriority bool) {
	if e.ID.Kind() != m.cfg.Self.ID.Kind() {
		return
	}
	known, _ := m.Entry(e.ID)
	e.Departure, e.Fixed, e.New, e.Pinned = election.Present, false, false, withPriority
	if !withPriority {
		e.Priority, e.Pinned = known.Priority, known.Pinned
	}
	if e.ID == m.cfg.Self.ID && m.cfg.Address == "" {
		m.cfg.Address = e.Address // the driver has found it out
	}
	if e.Address == "" {
		e.Address, e.Fixed = known.Address, known.Fixed || known.ID != election.None && known.Version == 0
	}
	e.Observer = e.Observer || known.Observer
	m.change(e)
	if i, ok := m.index[e.ID]; ok && i != m.me && !m.members[i].link && !m.members[i].down && !m.members[i].since.Equal(m.now) {
		e, _ = m.Entry(e.ID)
		m.sendList(i, []election.Member{e}) // else it would learn of that only from the leader, which may be gone
	}
}

// remove removes a member because the user asks for it.
func (m *Machine) remove(id election.ID) {
	if e, ok := m.Entry(id); ok && e.Departure == election.Present {
		e.Departure = election.Removed
		e.Version += election.RemovalLead
		m.change(e)
	}
}

// leave takes this member off the list: it gives up the lead and is gone for the members until it
// joins again.
func (m *Machine) leave() {
	if m.tenure.Leading() {
		m.place = offList // no member asks it whether it is a candidate
		m.giveUp(election.CauseResigned, "it leaves the cluster", "")
	}
	if e, ok := m.Entry(m.cfg.Self.ID); ok && e.Departure != election.Removed {
		e.Departure, e.New = election.Left, false
		m.place = offList
		m.change(e)
		if !m.linked() { // it has just come, and no member would learn of it
			e, _ = m.Entry(m.cfg.Self.ID)
			m.others(func(i int, peer *member) {
				if !peer.down {
					m.sendList(i, []election.Member{e})
				}
			})
		}
	}
}

// joinAccepted handles what the admitting member has sent: the list and, if it knows any, the
// leadership.
func (m *Machine) joinAccepted(list []election.Member, t election.Token, age time.Duration) {
	m.merge(list, election.None)
	bears := m.cfg.Timing.Bears()
	if t.Above(m.tenure.Held()) && t.Above(m.tenure.Next()) && !m.tenure.Mine(t) && age >= 0 && age < bears && t.Epoch <= election.MaxEpoch && !m.tenure.Beats() {
		if m.Knows(t.Leader.ID) {
			m.adopt(t, "who let us join hears it", time.Time{}, m.now.Add(bears-age))
			return
		}
	}
	m.seen.See(min(t.Epoch, election.MaxEpoch-1))
}
