// Package roster is the member list of a cluster, as one member has it: entries, each
// with a version of its own, that merge one by one; the tombstones of those that have
// left; and a digest by which two members see that their lists differ. It says what may
// come onto the list, and nothing of who is up, connected or leading.
package roster

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Roster is one member's list. Each entry stands once, by id. It is not safe for
// concurrent use.
type Roster struct {
	self       election.ID
	list       []election.Member // by id, tombstones included; never changed in place
	digest     uint32            // of list
	tombstones []election.ID     // who has left, the one of whom that was heard first before the others
	forgotten  []forgotten       // within ForgetAfter, the latest last
	joins      time.Time         // what newcomers have used up of what is let in: see joinEvery
}

// New takes up a list: what the disk remembers, and over that what the configuration
// says of members that were never changed at run time. own is the member whose list it
// is, as it was started.
func New(own election.Member, saved, configured []election.Member) Roster {
	all := slices.Concat([]election.Member{own}, saved, configured)
	slices.SortStableFunc(all, func(a, b election.Member) int { return a.ID.Compare(b.ID) })
	r := Roster{self: own.ID, list: make([]election.Member, 0, len(all))}
	for _, e := range all {
		last := len(r.list) - 1
		switch {
		case last < 0 || r.list[last].ID != e.ID:
			r.list = append(r.list, e)
		case e.ID == own.ID:
			r.list[last] = ownEntry(r.list[last], e)
			if len(configured) == 0 && e.Version == 0 && own.Address != "" && e.Address != own.Address {
				r.list[last].Version, r.list[last].Fixed = max(own.Version, 1), false // it has moved, and no configuration has it: all are to receive that
			}
		case r.list[last].Version == 0 || e.Supersedes(r.list[last]):
			r.list[last] = e
		case r.list[last].Fixed && e.Version == 0:
			r.list[last].Address = e.Address
		}
	}
	r.list = bounded(r.list, func(id election.ID) bool {
		return id == own.ID || slices.ContainsFunc(configured, func(e election.Member) bool { return e.ID == id })
	})
	r.digest = election.Digest(r.list)
	for _, e := range r.list {
		if e.Departure == election.Left && e.ID != own.ID {
			r.tombstones = append(r.tombstones, e.ID)
		}
	}
	return r
}

// ownEntry is this member's entry: own, as it was started, with what e remembers of it.
func ownEntry(own, e election.Member) election.Member {
	if e.Version == 0 || e.Version < own.Version || e.Departure == election.Removed { // its own removal outranks no addition
		return own
	}
	own.Version, own.Fixed, own.New = e.Version, e.Fixed, e.New
	if e.Fixed {
		e.Address = own.Address
	}
	if e.Departure == election.Present && e != own {
		own.Version++ // it has moved, or ranks otherwise: all are to hear of it
	}
	return own
}

// Clone gives an independent copy.
func (r *Roster) Clone() Roster {
	c := *r
	c.tombstones, c.forgotten = slices.Clone(r.tombstones), slices.Clone(r.forgotten)
	return c
}

// All is the list, tombstones included, in the order of the ids. It is not to be changed,
// and stays as it is when the list changes.
func (r *Roster) All() []election.Member { return r.list }

// Digest is a short sum of the list: see [election.Digest].
func (r *Roster) Digest() uint32 { return r.digest }

func byID(e election.Member, id election.ID) int { return e.ID.Compare(id) }

// Entry is a member's entry, a tombstone too.
func (r *Roster) Entry(id election.ID) (election.Member, bool) {
	i, ok := slices.BinarySearchFunc(r.list, id, byID)
	if !ok {
		return election.Member{}, false
	}
	return r.list[i], true
}

// Above is e with a version above what it replaces, and whether that changes anything.
// It is not on the list yet: [Roster.Merge] puts it there.
func (r *Roster) Above(now time.Time, e election.Member) (entry election.Member, changes bool) {
	old, ok := r.Entry(e.ID)
	if !ok {
		old, _ = r.lately(now, e.ID)
	}
	e.Version = max(e.Version, old.Version)
	if ok && old.Version > 0 && e == old {
		return e, false
	}
	e.Version = min(e.Version+1, election.MaxVersion)
	return e, true
}

// Merge takes in the entries that hold over what is on the list, and gives those: the
// news. stale are the entries, forgotten here, of those that others still have.
func (r *Roster) Merge(now time.Time, entries []election.Member) (news, stale []election.Member) {
	for _, e := range entries {
		old, ok := r.Entry(e.ID)
		if e.ID == election.None || e.ID.Kind() != r.self.Kind() || ok && !e.Supersedes(old) || !r.Fits(e) {
			continue
		}
		if !ok && r.forgets(now, e) {
			if known, ok := r.lately(now, e.ID); ok && !e.Forgotten() {
				stale = append(stale, known)
			}
			continue
		}
		if e.Fixed && ok {
			e.Address = old.Address
		}
		e.New = e.New && (e.ID != r.self || e.Departure == election.Present) // we are here, and ask to return
		if news == nil {
			r.list = slices.Clone(r.list) // whoever was given the old one keeps it
		}
		news = append(news, e)
		r.put(e)
	}
	if len(news) == 0 {
		return nil, stale
	}
	r.list = slices.DeleteFunc(r.list, func(e election.Member) bool { return e.Forgotten() && r.forgets(now, e) })
	r.digest = election.Digest(r.list)
	for _, e := range news {
		r.noteTombstone(e)
	}
	return news, stale
}

// put writes an entry into the list.
func (r *Roster) put(e election.Member) {
	i, ok := slices.BinarySearchFunc(r.list, e.ID, byID)
	if ok {
		r.list[i] = e
	} else {
		r.list = slices.Insert(r.list, i, e)
	}
}

// Fits reports whether the list has room for e, in the place of an entry with the
// same id if there is one. An entry that is no larger than the one before fits.
func (r *Roster) Fits(e election.Member) bool {
	old, ok := r.Entry(e.ID)
	switch {
	case ok && e.Size() <= old.Size():
		return true
	case !ok && len(r.list) >= election.MaxMembers:
		return false
	case ok:
		return election.ListBytes(r.list)-old.Size()+e.Size() <= election.MaxListBytes
	}
	return election.ListBytes(r.list)+e.Size() <= election.MaxListBytes
}

// bounded leaves out of a list what goes beyond its bounds, the highest ids first;
// what keep names stays. A disk may remember more than a list may hold: an earlier
// version had no bound in bytes.
func bounded(list []election.Member, keep func(election.ID) bool) []election.Member {
	count, size := len(list), election.ListBytes(list)
	for i := len(list) - 1; i >= 0 && (count > election.MaxMembers || size > election.MaxListBytes); i-- {
		if !keep(list[i].ID) {
			count, size = count-1, size-list[i].Size()
			list = slices.Delete(list, i, i+1)
		}
	}
	return list
}
