package election

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// Member is an entry of the member list. Each entry has a version of its own;
// lists merge entry by entry, the higher version holds, and at equal versions a
// departure does. The list is the same everywhere once members can talk.
type Member struct {
	Rank     `cbor:"r"`
	Address  string    `cbor:"a,omitempty"` // HOST:PORT
	Observer bool      `cbor:"o,omitempty"` // follows and never leads
	Version  uint64    `cbor:"v,omitempty"` // 0: from a configuration
	Gone     Departure `cbor:"g,omitempty"`
	Fixed    bool      `cbor:"f,omitempty"` // Address is from each operator's configuration, though Version is not 0
	New      bool      `cbor:"n,omitempty"` // a join has put it on the list, and no leader has heard it since
	Pinned   bool      `cbor:"p,omitempty"` // a user has set Priority: it holds over the process's own until that starts again
}

// Departure is how a member left the list. Its entry stays as a tombstone.
type Departure uint8

// Departures.
const (
	Present Departure = iota
	Left              // it went of itself and may join again
	Removed           // it was sent away and is refused until it is added again
)

// listChunk is how many entries one message carries.
const listChunk = 128

// Why a membership change is refused.
var (
	ErrRemoved   = errors.New("this member was removed from the cluster: it is refused until it is added again")
	ErrMixedKind = errors.New("all ids of a cluster must be of one kind")
)

// supersedes reports whether entry e replaces old. An entry from a configuration
// replaces none of another: each operator has written his own.
func (e Member) supersedes(old Member) bool {
	if e.Version == 0 {
		return false
	}
	return cmp.Or(
		cmp.Compare(e.Version, old.Version),
		cmp.Compare(e.Gone, old.Gone),
		cmp.Compare(old.isNew(), e.isNew()),
		cmp.Compare(e.commonAddress(), old.commonAddress()), // any rule will do, if it is everyone's
		cmp.Compare(e.rankWord(), old.rankWord()),
	) > 0
}

// commonAddress is the address if it is the same for all.
func (e Member) commonAddress() string {
	if e.Version == 0 || e.Fixed {
		return "" // each configuration has its own
	}
	return e.Address
}

// rankWord is what the entry says of the member's priority, as one number.
func (e Member) rankWord() int64 {
	word := int64(e.Priority) << 2
	if e.Pinned {
		word++
	}
	return word
}

func (e Member) isNew() int {
	if e.New {
		return 1
	}
	return 0
}

// stance is what the entry alone says of whether the member stands.
func (e Member) stance() Aside {
	if e.Observer {
		return AsideObserver
	}
	return Stands
}

// List is the member list, tombstones included, in the order of the ids.
func (m *Machine) List() []Member { return slices.Clone(m.list) }

// Knows reports whether id is a member now.
func (m *Machine) Knows(id ID) bool {
	_, ok := m.index[id]
	return ok
}

// Entry is a member's entry on the list, a tombstone too.
func (m *Machine) Entry(id ID) (Member, bool) {
	i, ok := slices.BinarySearchFunc(m.list, id, func(e Member, id ID) int { return e.ID.Compare(id) })
	if !ok {
		return Member{}, false
	}
	return m.list[i], true
}

// MaxVersion is the highest version of a list's entry. removalLead is how far a
// removal rises above what it removes: over whatever the member itself does to its
// entry without having heard of it, such as to move, or to leave and join again.
const (
	MaxVersion  = 1 << 62
	removalLead = 1 << 16
)

// change puts an entry of our own making on the list, above what it replaces.
func (m *Machine) change(e Member) {
	if old, ok := m.Entry(e.ID); ok {
		e.Version = max(e.Version, old.Version)
		if old.Version > 0 && e == old {
			return
		}
	} else if old, ok := m.lately(e.ID); ok {
		e.Version = max(e.Version, old.Version)
	}
	e.Version = min(e.Version+1, MaxVersion)
	m.merge([]Member{e}, m.cfg.Self.ID)
}

// merge takes in the entries that hold over ours, as from has them, and passes
// them on.
func (m *Machine) merge(entries []Member, from ID) {
	var news []Member
	var late []ID
	for _, e := range entries {
		old, ok := m.Entry(e.ID)
		if e.ID == None || e.ID.Kind() != m.cfg.Self.ID.Kind() || ok && !e.supersedes(old) || !m.Fits(e) {
			continue
		}
		if !ok && m.forgot(e) {
			if !e.forgotten() {
				late = append(late, e.ID)
			}
			continue
		}
		if e.Fixed && ok {
			e.Address = old.Address
		}
		e.New = e.New && (e.ID != m.cfg.Self.ID || e.Gone == Present) // we are here, and ask to return
		if news == nil {
			m.list = slices.Clone(m.list) // whoever was given the old one keeps it
		}
		news = append(news, e)
		m.put(e)
	}
	m.tellForgotten(from, late)
	if len(news) == 0 {
		return
	}
	m.list = slices.DeleteFunc(m.list, func(e Member) bool { return e.forgotten() && m.forgot(e) })
	m.digest, m.listed = digest(m.list), false
	m.spread(news, from)
	for _, e := range news {
		m.untell(e)
		m.buried(e)
		m.seat(e)
	}
	m.save()
}

// put writes an entry into the list.
func (m *Machine) put(e Member) {
	i, ok := slices.BinarySearchFunc(m.list, e.ID, func(e Member, id ID) int { return e.ID.Compare(id) })
	if ok {
		m.list[i] = e
	} else {
		m.list = slices.Insert(m.list, i, e)
	}
}

// digest is a short sum of a list: two members whose digests differ exchange
// their lists. A priority of 0 adds nothing: members of before there were
// priorities in it have the same digest of a list without any.
func digest(list []Member) uint32 {
	b := make([]byte, 0, 32*len(list))
	for _, e := range list {
		b = append(binary.AppendUvarint(append(b, e.ID...), e.Version), byte(e.Gone))
		if e.Version > 0 {
			b = append(b, e.commonAddress()...)
			if word := e.rankWord() + 2*int64(e.isNew()); word != 0 {
				b = binary.AppendVarint(b, word)
			}
		}
		b = append(b, 0)
	}
	h := fnv.New32a()
	h.Write(b)
	return h.Sum32()
}

// spread tells news to everyone a link stands to, whom they concern included: a
// leader so tells all, a follower its leader. Others learn by the digests. Without
// a leader only who makes the news tells it: each to each would be n² messages.
func (m *Machine) spread(news []Member, from ID) {
	if m.cfg.NoDetector || from != m.cfg.Self.ID && !m.live() {
		return
	}
	m.others(func(i int, peer *member) {
		if peer.link && peer.ID != from {
			m.sendList(i, news)
		}
	})
}

func (m *Machine) sendList(to int, entries []Member) {
	for chunk := range slices.Chunk(entries, listChunk) {
		m.send(to, Message{Kind: Members, List: chunk})
	}
}

// compareLists notes whether a member's list is another than ours, and asks for it.
func (m *Machine) compareLists(i int, msg *Message) {
	if m.cfg.NoDetector || msg.Kind == Members {
		return // the rest of its list may be on its way
	}
	if m.members[i].differs = msg.Digest != m.digest; m.members[i].differs {
		m.pull(i)
	}
}

// pull asks a member for its list, which differs: as soon as it may.
func (m *Machine) pull(i int) {
	peer := &m.members[i]
	if !peer.link {
		return
	}
	if at := m.pullAt(peer); m.now.Before(at) {
		m.wake(at)
		return
	}
	peer.differs = false
	m.nextPull, peer.nextPull = m.now.Add(m.cfg.Timing.Heartbeat), m.now.Add(m.cfg.Timing.T())
	m.send(i, Message{Kind: GetMembers})
}

// pullAt is when a member may be asked for its list: one is in a heartbeat, and
// none twice in T. While a hundred join at once all lists differ, and if each
// were sent to all there would be n³ entries under way.
func (m *Machine) pullAt(peer *member) time.Time {
	if peer.nextPull.After(m.nextPull) {
		return peer.nextPull
	}
	return m.nextPull
}

// seat makes the members agree with a changed entry.
func (m *Machine) seat(e Member) {
	i, ok := m.index[e.ID]
	switch {
	case e.ID == m.cfg.Self.ID:
		switch e.Gone {
		case Removed:
			m.evicted()
		case Left:
			m.struckOff()
		default:
			m.relisted()
			m.ranked(e)
		}
	case e.Gone == Present && ok:
		moved, reranked := m.members[i].Address != e.Address, m.members[i].Rank != e.Rank
		m.members[i].Member = e
		m.rank()
		if reranked {
			m.reconsiderRank()
		}
		if moved {
			m.do(Action{Kind: Notify, Member: e.ID, Status: StateAdded, Address: e.Address})
		}
	case e.Gone == Present:
		m.note("adds", e.ID, Token{}, "at "+e.Address)
		// It may not know us yet, and reaches its leader itself: dial it later.
		soon := m.now.Add(2 * m.cfg.Timing.TMax)
		seat := member{Member: e, aside: e.stance(), redial: soon, since: m.now}
		if d := m.isDeparting(e.ID); d >= 0 {
			seat.draining, seat.said = true, m.departing[d].heard
			m.departed(d, "it is on the list again")
		}
		m.members = append(m.members, seat)
		m.rank()
		m.version++
		m.do(Action{Kind: Notify, Member: e.ID, Status: StateAdded, Address: e.Address})
		m.wake(soon)
	case ok:
		m.unseat(i, e)
	}
}

// ranked takes note of this member's priority on the list: one that a user has set
// holds, any other is corrected to what the process itself was started with, or
// was told since.
func (m *Machine) ranked(e Member) {
	switch {
	case e.Priority == m.cfg.Self.Priority:
	case e.Pinned:
		m.note("ranks", m.cfg.Self.ID, Token{}, fmt.Sprintf("with priority %d: a user has set it", e.Priority))
		m.cfg.Self.Priority = e.Priority
		m.members[m.me].Rank = e.Rank
		m.rank()
		m.reconsiderRank()
	default:
		e.Priority = m.cfg.Self.Priority
		m.change(e)
	}
}

// toldRank takes note of the rank with which a new process has presented itself: its
// word on its own priority holds over what is on the list, and goes to all. A
// configuration does not say it, and the address there stays each operator's own.
func (m *Machine) toldRank(rank Rank) {
	e, _ := m.Entry(rank.ID)
	if e.Rank == rank {
		return
	}
	e.Fixed = e.Fixed || e.Version == 0
	e.Rank, e.Pinned = rank, false
	m.change(e)
}

// rankOf is what a leader ranks by now: what its token says, unless that was
// changed on the list since.
func (m *Machine) rankOf(leader Rank) Rank {
	if e, ok := m.Entry(leader.ID); ok && e.Version > 0 {
		return e.Rank
	}
	return leader
}

// reconsiderRank has this member take over soon if it outranks the leader now.
func (m *Machine) reconsiderRank() {
	if m.started && m.mayPreempt() {
		m.set(timerHandover, m.cfg.Timing.Heartbeat)
	}
}

// unseat drops a member that has left or was removed.
func (m *Machine) unseat(i int, e Member) {
	cause, why := CauseResigned, "it left the cluster"
	if e.Gone == Removed {
		cause, why = CauseRemoved, "it was removed"
	} else if e.forgotten() && m.members[i].New {
		why = "it was let in and never came"
	}
	m.note("drops", e.ID, Token{}, why)
	peer := &m.members[i]
	switch leads := m.isLeader(i) || m.next.Leader.ID == e.ID || peer.draining; {
	case leads && peer.link && !m.cfg.NoDetector:
		m.setAside(peer) // its work has still to stop
	case peer.link || peer.dialing:
		m.do(Action{Kind: Notify, Member: e.ID, Status: StateRemoved})
		m.do(Action{Kind: Hangup, To: e.ID})
	default:
		m.do(Action{Kind: Notify, Member: e.ID, Status: StateRemoved})
	}
	m.members = slices.Delete(slices.Clone(m.members), i, i+1)
	m.rank()
	m.version++
	m.step(Event{Kind: PeerDown, Peer: e.ID})
	switch {
	case m.live() && m.view.Leader.ID == e.ID:
		m.vacate(cause, true, why)
	case m.next.Leader.ID == e.ID:
		m.forgo(why)
	}
	m.askedAll()
}

// evicted: the others have removed this member.
func (m *Machine) evicted() {
	m.expelled, m.next = true, Token{}
	m.expel("this member was removed from the cluster")
	if !m.yields {
		m.do(Action{Kind: Halt, Err: ErrRemoved})
	}
}

// expel gives up the lead of one that is no member any more; who follows only loses
// its leader.
func (m *Machine) expel(why string) {
	if m.leading() {
		m.giveUp(CauseRemoved, why, "")
		return
	}
	m.lose(CauseRemoved, true, why)
}

// struckOff: the others have heard late that this member had left, which has come
// back since. It stands aside until one of them lets it in again.
func (m *Machine) struckOff() {
	if m.expelled {
		return // it is leaving
	}
	m.expelled = true
	m.expel("the others have it that this member has left")
	if m.isMine(m.next) {
		m.next = Token{}
	}
	m.rejoin(None)
}

// rejoin has the driver ask a member, or (None) everyone through whom this one
// joins, to let it in. Before its start it is asking already.
func (m *Machine) rejoin(through ID) {
	if m.started {
		m.do(Action{Kind: Rejoin, To: through})
	}
}

// relisted: this member is on the list again.
func (m *Machine) relisted() {
	if !m.expelled {
		return
	}
	m.expelled = false
	m.preempt()
	if m.vacant() && !m.inquiring {
		m.inquire("it is on the list again")
	}
}

// add puts a member on the list because the user says so, a removed one too. What
// he does not say of a known one stays: its address, its priority unless that is
// said, and that it only follows.
func (m *Machine) add(e Member, withPriority bool) {
	if e.ID.Kind() != m.cfg.Self.ID.Kind() {
		return
	}
	known, _ := m.Entry(e.ID)
	e.Gone, e.Fixed, e.New, e.Pinned = Present, false, false, withPriority
	if !withPriority {
		e.Priority, e.Pinned = known.Priority, known.Pinned
	}
	if e.Address == "" {
		e.Address, e.Fixed = known.Address, known.Fixed || known.ID != None && known.Version == 0
	}
	e.Observer = e.Observer || known.Observer
	m.change(e)
}

// remove sends a member away because the user says so.
func (m *Machine) remove(id ID) {
	if e, ok := m.Entry(id); ok && e.Gone == Present {
		e.Gone = Removed
		e.Version += removalLead
		m.change(e)
	}
}

// leave takes this member off the list: it gives up the lead and is gone for the
// others until it joins again.
func (m *Machine) leave() {
	if m.leading() {
		m.expelled = true // nobody asks it whether it stands
		m.giveUp(CauseResigned, "it leaves the cluster", "")
	}
	if e, ok := m.Entry(m.cfg.Self.ID); ok && e.Gone != Removed {
		e.Gone, e.New = Left, false
		m.expelled = true
		m.change(e)
		if !m.linked() { // it has just come, and nobody would hear of it
			e, _ = m.Entry(m.cfg.Self.ID)
			m.others(func(i int, peer *member) {
				if !peer.down {
					m.sendList(i, []Member{e})
				}
			})
		}
	}
}

// awaitLeader leaves it to those who were there before this newcomer to elect,
// for T: of a hundred that join a cluster as it is born, not each need contest.
func (m *Machine) awaitLeader() {
	m.joining, m.inquiring = true, true
	m.note("awaits", None, Token{}, "the leader of those who let it join")
	m.set(timerInquiry, m.farT())
}

// welcomed takes in what the member that let us join has told: the list and,
// if it knows one, who leads.
func (m *Machine) welcomed(list []Member, t Token, age time.Duration) {
	m.merge(list, None)
	T := m.cfg.Timing.T()
	if t.Above(m.view) && t.Above(m.next) && !m.isMine(t) && age >= 0 && age < T && t.Epoch <= MaxEpoch && !m.leading() && !m.draining {
		if m.Knows(t.Leader.ID) {
			m.adopt(t, "who let us join hears it", time.Time{}, m.now.Add(T-age))
			return
		}
	}
	m.highest = max(m.highest, min(t.Epoch, MaxEpoch-1))
}
