package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/roster"
)

// listing changes the member list, and what that means for the election.
type listing struct {
	watcher
	duplicate
}

// fromDeparting handles a message of a process that is no member any more. It may not know that: it
// is notified when its list differs. A member that has left may have been admitted again since by a
// member that is gone: it is asked.
func (m *listing) fromDeparting(i int, msg *election.Message) {
	d := &m.departing[i]
	switch msg.Kind {
	case election.Beat:
		d.heard = m.now
		m.sendOutside(d.id, &election.Message{Kind: election.Ack, Stamp: msg.Stamp}) // else it hangs up
		if e, ok := m.Entry(d.id); ok && msg.Digest != m.roster.Digest() && m.now.Sub(d.told) > m.cfg.Timing.T() {
			d.told = m.now
			m.sendOutside(d.id, &election.Message{Kind: election.Members, List: []election.Member{e}})
			if e.Departure == election.Left {
				m.sendOutside(d.id, &election.Message{Kind: election.GetMembers})
			}
		}
	case election.Resign:
		m.departed(i, "it has stopped")
	case election.Members:
		if own := slices.IndexFunc(msg.List, func(e election.Member) bool { return e.ID == m.cfg.Self.ID && e.Departure == election.Removed }); own >= 0 {
			m.removedBy(d.id, msg.List[own])
		}
		left, _ := m.Entry(d.id)
		for _, e := range msg.List { // it is believed that it is on the list again, unless it was removed
			if e.ID == d.id && e.Departure == election.Present && left.Departure == election.Left {
				m.merge([]election.Member{e}, d.id)
			}
		}
	}
}

// departingLink handles what the driver reports of the link to a departing process.
func (m *listing) departingLink(i int, ev election.Event) {
	switch {
	case ev.Kind == election.LinkDown:
		m.do(election.Action{Kind: election.Dial, To: ev.Peer}) // a refusal proves that its process is gone
	case ev.Kind == election.DialFailed && ev.Refused:
		m.departed(i, "it refuses the connection")
	case ev.Kind == election.DialFailed && ev.Err == election.ErrRemoved:
		m.removedBy(ev.Peer, ev.Member)
	}
}

// What follows admits newcomers, and forgets those that never come. What may come onto the list is the
// roster's to decide.

// epochLead is how far a newcomer's report of its epoch is accepted, above the leadership that is
// known.
const epochLead = 1 << 16

// joinRequested admits a newcomer through this member. The driver has asked AdmitJoin. The newcomer
// reports what it holds: the version of its own entry, because it may know of its leaving before we
// do, and t, the highest leadership on its disk.
func (m *listing) joinRequested(e election.Member, t election.Token) {
	if m.roster.MayEnter(e, m.cfg.Closed) != nil || e.ID == m.cfg.Self.ID {
		return
	}
	// No further than the members would accept: they drop what is far above.
	if t.Epoch <= min(election.MaxEpoch, m.tenure.Held().Epoch+epochLead) {
		m.seen.See(t.Epoch)
	}
	e, changes := m.roster.Newcomer(e)
	if changes {
		m.roster.CountJoin(m.now)
		m.change(e)
	}
	if !m.tenure.Live() { // it received no leader, and awaits a leader
		m.members[m.index[e.ID]].eligibility = election.IneligibleJoining
	}
}

// forgetStrangers has a leader check members that a join has put on the list some time ago: a
// member that was received stays, the rest go without a trace. Time in which this process was
// stopped does not count: it could not have received them.
func (m *listing) forgetStrangers() {
	var due []election.Member
	awake := later(m.origin, m.detector.Resumed())
	for i := range m.members {
		peer := &m.members[i]
		if m.now.Sub(later(peer.since, awake)) < roster.ForgetAfter {
			continue
		}
		e, _ := m.Entry(peer.ID)
		switch {
		case !e.New:
			continue
		case i == m.me || !peer.heard.IsZero():
			e.New = false
		default:
			e.Departure = election.Left
			e.Version++
		}
		due = append(due, e)
	}
	m.merge(append(due, m.roster.Old()...), m.cfg.Self.ID)
}

// membership is this member's own state on the members' lists.
type membership struct {
	place          place
	wasRemoved     bool      // its disk has its own removal, and it has had no leader since it started: no member has admitted it
	nextPull       time.Time // not before is anyone asked for its list
	nextCorrection time.Time // not before is this member's priority on the list corrected
}

// place is this member's own state.
type place uint8

const (
	onList  place = iota
	offList       // it has left, or members have it so: it is no candidate until it is admitted again
	removed       // it was sent away: its process is about to end
)

// change puts an entry of our own making on the list, above what it replaces.
func (m *listing) change(e election.Member) {
	if e, changes := m.roster.Above(m.now, e); changes {
		m.merge([]election.Member{e}, m.cfg.Self.ID)
	}
}

// merge takes in the entries that hold over ours, as from has them, and passes
// them on.
func (m *listing) merge(entries []election.Member, from election.ID) {
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
		if e.ID != m.cfg.Self.ID {
			m.mustNotify(e, m.now)
		}
		m.applyEntry(e)
	}
	m.save()
}

// applyEntry makes the members agree with a changed entry.
func (m *listing) applyEntry(e election.Member) {
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
		if reranked {
			m.reranked()
		}
		if moved {
			m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: election.StateAdded, Address: e.Address})
			if state := m.members[m.index[e.ID]].state; state != election.StateUnknown {
				m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: state}) // that has not changed
			}
			if i := m.index[e.ID]; m.members[i].down { // a refusal at its former address proves nothing of it
				m.setState(i, election.StateUnreachable)
				m.markUp(i)
			}
		}
	case e.Departure == election.Present:
		if m.notifying == e.ID {
			m.endNotice() // what dials this member begins from the start
		}
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
func (m *listing) ranked(e election.Member) {
	switch {
	case e.Priority == m.cfg.Self.Priority:
	case e.Pinned:
		m.note("ranks", m.cfg.Self.ID, election.Token{}, fmt.Sprintf("with priority %d: a user has set it", e.Priority))
		m.cfg.Self.Priority = e.Priority
		m.members[m.me].Rank = e.Rank
		m.reranked()
	default:
		m.correctRank()
	}
}

// reranked puts the members in order after a rank has changed.
func (m *listing) reranked() {
	below := m.ranks[:m.me]
	m.rank()
	for _, r := range below {
		if i := m.index[r.ID]; i > m.me {
			m.members[i].becomesRival(m.now) // an election under way was not left to it
		}
	}
	m.reconsiderRank()
}

// correctRank puts the priority of this process on the list again, once within T: a second process
// with this id would correct it in turn, as fast as their messages travel.
func (m *listing) correctRank() {
	e, _ := m.Entry(m.cfg.Self.ID)
	switch {
	case e.Departure != election.Present || e.Pinned || e.Priority == m.cfg.Self.Priority:
	case m.now.Before(m.nextCorrection):
		m.alarms.Wake(m.nextCorrection)
	default:
		m.nextCorrection = m.now.Add(m.cfg.Timing.T())
		e.Priority = m.cfg.Self.Priority
		m.change(e)
	}
}

// toldRank records the rank with which a new process has presented itself: its report of its own
// priority holds over what is on the list, and goes to all. A configuration does not have it, and
// the address there stays each operator's own.
func (m *listing) toldRank(rank election.Rank) {
	e, _ := m.Entry(rank.ID)
	if e.Rank == rank {
		return
	}
	e.Fixed = e.Fixed || e.Version == 0
	e.Rank, e.Pinned = rank, false
	m.change(e)
}

// dropMember drops a member that has left or was removed.
func (m *listing) dropMember(i int, e election.Member) {
	cause, why := election.CauseResigned, "it left the cluster"
	if e.Departure == election.Removed {
		cause, why = election.CauseRemoved, "it was removed"
	} else if e.Forgotten() && m.members[i].New {
		why = "it was admitted and never came"
	}
	m.note("drops", e.ID, election.Token{}, why)
	peer := &m.members[i]
	switch leads := m.tenure.LedBy(m.members[i].ID) || m.tenure.Next().Leader.ID == e.ID || peer.works(m.now, m.cfg.Timing.Bears()); {
	case leads && peer.link:
		m.keeps(peer) // its work has still to stop
		m.note("awaits", peer.ID, election.Token{}, "the end of its work")
		m.wakeForOthersWork()
	default:
		m.do(election.Action{Kind: election.Notify, Member: e.ID, Status: election.StateRemoved})
		if peer.link || peer.dialing {
			m.do(election.Action{Kind: election.Hangup, To: e.ID})
		}
	}
	m.strike(i)
	m.notifyAgain()
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
func (m *listing) removedSelf() {
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

// delisted: members have learned late that this member had left, which has come back since. It is
// no candidate until a member admits it again.
func (m *listing) delisted() {
	if m.place != onList {
		return // it is leaving
	}
	m.place = offList
	m.leaveLeadership("the other members list it as departed")
	m.rejoin(election.None)
}

// relisted: this member is on the list again.
func (m *listing) relisted() {
	if m.place != offList {
		return // it never was off the list, or its process is about to end
	}
	m.place = onList
	m.enterPhaseWithoutLeader()
}

// AdmitChange returns nil if this member may change the list, or [election.ErrRemoved]. A removed
// member would otherwise pass changes to members that the rest of the cluster refuses, or remove a
// member that then takes the two for members that have removed each other. Its own entry and
// address are its own.
func (m *listing) AdmitChange(_ bool, id election.ID, _ bool) error {
	own, _ := m.Entry(m.cfg.Self.ID)
	if m.place == removed || own.Departure == election.Removed || m.wasRemoved && id != own.ID {
		return election.ErrRemoved
	}
	return nil
}

// add puts a member on the list because the user asks for it, a removed member too. What the
// request leaves out stays for a known member: its address, its priority unless it is given, and
// that it only follows.
func (m *listing) add(e election.Member, withPriority bool) {
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

// remove removes a member because the user asks for it, or because it has been absent for long.
func (m *listing) remove(id election.ID, absent bool) {
	if e, ok := m.Entry(id); ok && e.Departure == election.Present {
		e.Departure, e.New = election.Removed, absent
		e.Version += election.RemovalLead
		m.change(e)
	}
}

// leave takes this member off the list: it is gone for the members until it joins again. If it leads,
// review ends that.
func (m *listing) leave() {
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
func (m *listing) joinAccepted(list []election.Member, t election.Token, age time.Duration) {
	m.merge(list, election.None)
	bears := m.cfg.Timing.Bears()
	if t.Above(m.tenure.Held()) && t.Above(m.tenure.Next()) && !m.tenure.Mine(t) && age >= 0 && age < bears && t.Epoch <= election.MaxEpoch && !m.tenure.Beats() {
		if m.Knows(t.Leader.ID) {
			m.adopt(t, "the admitting member confirms it", time.Time{}, m.now.Add(bears-age))
			return
		}
	}
	m.seen.See(min(t.Epoch, election.MaxEpoch-1))
}

// noticeLink handles what the driver reports of the link to the removed member that is being
// notified.
func (m *listing) noticeLink(ev election.Event) {
	id := m.notifying
	switch {
	case ev.Kind == election.LinkUp:
		if e, _ := m.Entry(id); e.Departure == election.Removed {
			m.note("notifies", id, election.Token{}, "that it was removed")
			m.sendOutside(id, &election.Message{Kind: election.Members, List: []election.Member{e}})
		}
		m.notifyUntil = m.now.Add(m.cfg.Timing.T()) // to hang up at once could lose it
		m.notified(id)
		m.alarms.Wake(m.notifyUntil)
		return
	case ev.Kind == election.DialFailed && ev.Err == election.ErrRemoved:
		m.notified(id)
		m.endNotice()
		m.removedBy(id, ev.Member)
		return
	case ev.Kind == election.DialFailed && (ev.Refused && m.linked() || ev.Err != nil && ev.Err != election.ErrSameID && ev.Err != election.ErrOldIncarnation):
		m.notified(id) // its process is gone, or replaced: if it returns, it asks a member that is not alone
	}
	m.endNotice()
}

// removedBy: a member that we have removed has removed us. A member that receives further members
// leaves it to them, which know of the first of the removals. Of two without further members the
// one with the lower id ends, and takes its own removal back: exactly one of them is left. Their
// ranks decide nothing, because each may not have received the priority of the other.
func (m *listing) removedBy(id election.ID, tombstone election.Member) {
	other, _ := m.Entry(id)
	if other.Departure != election.Removed || m.place != onList || m.linked() || m.outdates(tombstone) || other.ID.Compare(m.cfg.Self.ID) < 0 {
		return
	}
	m.note("yields to", id, election.Token{}, "each has removed the other, and its id is higher")
	m.gives(true)
	other.Departure = election.Present
	m.change(other)
	if tombstone.ID == m.cfg.Self.ID && tombstone.Departure == election.Removed {
		m.merge([]election.Member{tombstone}, id)
	}
	if m.place == onList {
		m.removedSelf()
	}
}

// What follows finds the second process of an id: a machine was replaced under its id, and the old
// machine is back. The list has a single address for an id, so the process that listens elsewhere
// asks at that address, and of the two the process that started later ends. Two processes that know
// each other need no third to decide, and cannot both end.

// duplicate is what this member knows of the address at which the list has its id, where
// that is not its own.
type duplicate struct {
	asking    bool   // a dial there is under way
	leadsBack string // an address that was found to be this process's own
	vain      string // an address at which there is no process with this id
	asked     int    // how often it has asked there
	taken     int    // how often it has taken its place from an address without a process
}

// elsewhere is the address at which the list has this member, "" if that is its own. What each
// configuration has for itself does not count.
func (m *listing) elsewhere() string {
	own, _ := m.Entry(m.cfg.Self.ID)
	switch {
	case m.cfg.NoDetector, m.cfg.Address == "", m.place != onList, own.Version == 0, own.Fixed:
		return ""
	case own.Address == m.cfg.Address, own.Address == m.leadsBack:
		return ""
	}
	return own.Address
}

// askElsewhere asks at the address that the list has for this member's id.
func (m *listing) askElsewhere() {
	if at := m.elsewhere(); at != "" && !m.asking {
		m.note("checks its id", m.cfg.Self.ID, election.Token{}, "the list has this member at "+at)
		m.asking = true
		m.do(election.Action{Kind: election.Dial, To: m.cfg.Self.ID})
	}
}

// answeredElsewhere handles what has come of that. That process's own entry comes first: when both
// have gone on the list again, the newest entry decides which of them has the place.
func (m *listing) answeredElsewhere(ev election.Event) {
	m.asking = false
	found := ev.Kind == election.DialFailed && ev.Err == election.ErrSameID
	if found && ev.Member.ID == m.cfg.Self.ID {
		m.merge([]election.Member{ev.Member}, election.None)
	}
	at := m.elsewhere()
	switch own, _ := m.Entry(m.cfg.Self.ID); {
	case at == "" || m.asking:
	case !found && m.mayStart(at):
		m.alarms.Set(timerElsewhere, m.now.Add(maxBackoff))
	case found && ev.Incarnation == m.cfg.Incarnation:
		m.leadsBack = at
	case found && (ev.Incarnation < m.cfg.Incarnation || m.refusedByAll()):
		m.note("is a duplicate", m.cfg.Self.ID, election.Token{}, "the process at "+at+" has this id")
		m.close() // review ends its leadership in this step
		m.do(election.Action{Kind: election.Halt, Err: election.ErrSameID, Address: at})
	default:
		m.vain = ""
		own.Address = m.cfg.Address // that process is the second, and finds us by this, or has ended
		m.change(own)
	}
}

// mayStart reports whether the process at an address where none was found may only be starting. It
// is asked for twice, and twice as often each time that the place was taken: it may run where this
// process cannot reach it, and takes the place in turn.
func (d *duplicate) mayStart(at string) bool {
	if d.vain != at {
		d.vain, d.asked = at, 0
	}
	if d.asked++; d.asked < 2<<min(d.taken, 10) {
		return true
	}
	d.taken++
	return false
}

// notifyAgain has a member without any connection notify all the removed again: one that was gone
// when it was dialed may have returned, and asks only the members that it has not removed itself.
func (m *listing) notifyAgain() {
	if !m.linked() {
		for _, e := range m.roster.All() {
			m.mustNotify(e, m.now)
		}
	}
}

// notifyRemoved dials a removed member each second, in turn, until each was notified. A member that
// has connections does not dial again where none listens; a member that is alone does.
func (m *listing) notifyRemoved() {
	if m.notifying != election.None {
		if m.now.Before(m.notifyUntil) {
			return
		}
		m.endNotice()
	}
	if len(m.unnotified) == 0 || !m.tenure.Leading() || m.now.Before(m.nextNotice) {
		return
	}
	id := m.unnotified[0]
	m.unnotified = append(slices.Clone(m.unnotified[1:]), id)
	e, _ := m.Entry(id)
	switch {
	case e.Departure != election.Removed:
		m.notified(id)
	case m.isDeparting(id) < 0:
		m.notifying, m.notifyUntil = id, m.now.Add(2*m.cfg.Timing.DialTime()+m.cfg.Timing.T())
		m.nextNotice = m.now.Add(maxBackoff)
		m.do(election.Action{Kind: election.Dial, To: id})
	}
}

// endNotice hangs up.
func (m *listing) endNotice() {
	m.do(election.Action{Kind: election.Hangup, To: m.notifying})
	m.notifying = election.None
}
