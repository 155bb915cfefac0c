package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file lets newcomers in. Whoever reaches a member may ask to join, so what
// joins do to the list is bounded.

// A member lets joinBurst newcomers in at once, and one every joinEvery after that.
// Whom a join has put on the list, and nobody has heard within forgetAfter, is
// forgotten by the leader; not who was configured, or added by a user.
const (
	joinBurst   = 256
	joinEvery   = 250 * time.Millisecond
	forgetAfter = time.Minute
)

// What of its own word is believed: a newcomer's epoch as far above the leadership
// that is known, its entry's version as far above the known one.
const (
	epochLead   = 1 << 16
	versionLead = 1 << 8
)

// AdmitJoin reports whether e may join through this member: nil, or why not
// ([election.ErrRemoved], [election.ErrSameID], [election.ErrOldIncarnation], [election.ErrMixedKind], [election.ErrFull],
// [election.ErrTooManyJoins], [election.ErrWornOut]). Who was removed may not, whatever it says of its
// entry: that it was added again is heard from a member. It changes nothing.
func (m *Machine) AdmitJoin(now time.Time, e election.Member, incarnation uint64) error {
	if err := m.mayEnter(e); err != nil {
		return err
	}
	if err := m.Admit(now, e.Rank, incarnation); err != nil && err != election.ErrNotMember {
		return err
	}
	if _, changes := m.newcomer(e); changes && m.admittedUntil.After(now.Add((joinBurst-1)*joinEvery)) {
		return election.ErrTooManyJoins
	}
	return nil
}

func (m *Machine) mayEnter(e election.Member) error {
	if _, err := election.ParseID(string(e.ID)); err != nil {
		return err
	}
	known, ok := m.Entry(e.ID)
	switch {
	case ok && known.Departure == election.Removed:
		return election.ErrRemoved
	case !ok && m.cfg.Closed:
		return fmt.Errorf("%w: its members are a fixed list, and %s is not on it; a user adds it (batuta members add), or gives the members --join too", election.ErrNotMember, e.ID)
	case e.ID.Kind() != m.cfg.Self.ID.Kind():
		return fmt.Errorf("%w: %s is a %v, here they are of kind %v", election.ErrMixedKind, e.ID, e.ID.Kind(), m.cfg.Self.ID.Kind())
	case !m.Fits(e):
		return election.ErrFull
	}
	if e, changes := m.newcomer(e); changes && generation(e.Version+1) != generation(known.Version) {
		return election.ErrWornOut
	}
	return nil
}

// generation counts what users have decided of an entry. A removal begins the next:
// nothing that a member says of itself reaches so far.
func generation(version uint64) uint64 { return version / election.RemovalLead }

// newcomer is the entry with which e joins, and whether that changes the list.
func (m *Machine) newcomer(e election.Member) (entry election.Member, changes bool) {
	known, ok := m.Entry(e.ID)
	if generation(e.Version) != generation(known.Version) || e.Version > known.Version+versionLead {
		e.Version = 0 // that cannot be, or a user had a part in it, of whom members tell
	}
	e.Version = max(e.Version, known.Version)
	e.Departure, e.Fixed, e.New = election.Present, false, !ok || known.New
	e.Pinned = known.Pinned && e.Priority == known.Priority
	return e, known.Version == 0 || e != known
}

// joinRequested lets a newcomer in through this member. The driver has asked AdmitJoin.
// The newcomer tells what it holds: the version of its own entry, for it may have
// heard of its leaving before we have, and t, the highest leadership on its disk.
func (m *Machine) joinRequested(e election.Member, t election.Token) {
	if m.mayEnter(e) != nil || e.ID == m.cfg.Self.ID {
		return
	}
	// No further than the others would believe us: they drop what is far above.
	if t.Epoch <= min(election.MaxEpoch, m.view.Epoch+epochLead) {
		m.highest = max(m.highest, t.Epoch)
	}
	e, changes := m.newcomer(e)
	if changes {
		if m.admittedUntil.Before(m.now) {
			m.admittedUntil = m.now
		}
		m.admittedUntil = m.admittedUntil.Add(joinEvery)
		m.change(e)
	}
	// It learns what we know in return: a discovery need not wait for it, unless it
	// knows of leaders already. Without a leader to tell of, it awaits one.
	peer := &m.members[m.index[e.ID]]
	peer.told = !t.Defined()
	if !m.live() {
		peer.eligibility = election.IneligibleJoining
	}
}

// forgetStrangers has a leader look at those that a join has put on the list some
// time ago: who was heard stays, the others go without a trace.
func (m *Machine) forgetStrangers() {
	var due []election.Member
	for i := range m.members {
		peer := &m.members[i]
		e, _ := m.Entry(peer.ID)
		since := peer.since
		if since.Before(m.origin) {
			since = m.origin
		}
		switch {
		case !e.New || m.now.Sub(since) < forgetAfter:
			continue
		case i == m.me || !peer.heard.IsZero():
			e.New = false
		default:
			e.Departure = election.Left
			e.Version++
		}
		due = append(due, e)
	}
	m.merge(append(due, m.oldTombstones()...), m.cfg.Self.ID)
}

// oldTombstones are the entries of those that left longest ago, to be forgotten, so that
// the list stays within three quarters of its bounds: members that come and leave
// would fill it in the end. Nobody forgets who was removed.
func (m *Machine) oldTombstones() (due []election.Member) {
	count, size := len(m.list)-election.MaxMembers*3/4, election.ListBytes(m.list)-election.MaxListBytes*3/4
	for _, id := range m.tombstones {
		if count <= 0 && size <= 0 {
			break
		}
		if e, ok := m.Entry(id); ok && e.Departure == election.Left {
			count, size = count-1, size-e.Size()
			e.New = true
			e.Version++
			due = append(due, e)
		}
	}
	return due
}

// noteTombstone notes of an entry when its member has left, as far as this one has heard.
func (m *Machine) noteTombstone(e election.Member) {
	if at := slices.Index(m.tombstones, e.ID); at >= 0 {
		m.tombstones = slices.Delete(m.tombstones, at, at+1)
	}
	if e.Departure == election.Left && !e.Forgotten() && e.ID != m.cfg.Self.ID {
		m.tombstones = append(m.tombstones, e.ID)
	}
}

// forgotten remembers an entry for a while after it has left the list: what others
// had sent before they heard of it would bring it back, and the two would chase each
// other among the members for ever.
type forgotten struct {
	election.Member
	at time.Time
}

// forgot reports whether an entry that is not on the list says that it is forgotten,
// which is noted, or was so a while ago, by a version that e does not supersede.
func (m *Machine) forgot(e election.Member) bool {
	old, ok := m.lately(e.ID)
	if !e.Forgotten() {
		return ok && !e.Supersedes(old)
	}
	m.forgottenLately = slices.DeleteFunc(m.forgottenLately, func(f forgotten) bool {
		return f.ID == e.ID || m.now.Sub(f.at) > forgetAfter
	})
	if ok && old.Supersedes(e) {
		e = old
	}
	m.forgottenLately = append(m.forgottenLately, forgotten{e, m.now})
	return true
}

// lately is the entry of one that was forgotten a while ago.
func (m *Machine) lately(id election.ID) (election.Member, bool) {
	i := slices.IndexFunc(m.forgottenLately, func(f forgotten) bool { return f.ID == id && m.now.Sub(f.at) <= forgetAfter })
	if i < 0 {
		return election.Member{}, false
	}
	return m.forgottenLately[i].Member, true
}

// tellForgotten answers one that still has entries which were forgotten.
func (m *Machine) tellForgotten(to election.ID, late []election.ID) {
	var due []election.Member
	for _, id := range late {
		if e, ok := m.lately(id); ok {
			due = append(due, e)
		}
	}
	if i, ok := m.index[to]; ok && i != m.me && m.members[i].link && len(due) > 0 {
		m.sendList(i, due)
	}
}
