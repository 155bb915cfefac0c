// Package roster is the member list of a cluster, as a member has it. Its entries have a version
// each and merge separately; tombstones remain of members that left. Two members compare their
// lists by a digest. The package decides what may be added to the list, and nothing about which
// members are up, connected or leading.
package roster

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Roster is a member's list, with an entry per id. It is not safe for concurrent use.
type Roster struct {
	self       election.ID
	list       []election.Member // by id, tombstones included; never changed in place
	digest     uint32            // of list
	tombstones []election.ID     // departed members, in the order in which this member learned of them
	forgotten  []forgotten       // within ForgetAfter, the latest last
	joins      time.Time         // what newcomers have used up of the rate: see joinEvery
}

// New returns the list of the member own, as it was started: the saved list, overridden by the
// configuration for members that were never changed at run time.
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
				r.list[last].Version, r.list[last].Fixed = max(own.Version, 1), false // it has moved, and no configuration has the new address: all members must receive it
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
		if r.forgettable(e) {
			r.tombstones = append(r.tombstones, e.ID)
		}
	}
	return r
}

// ownEntry returns this member's entry: own, as it was started, with what e remembers of it.
func ownEntry(own, e election.Member) election.Member {
	if e.Version == 0 || e.Version < own.Version || e.Departure == election.Removed { // its own removal does not outrank an addition
		return own
	}
	own.Version, own.Fixed, own.New = e.Version, e.Fixed, e.New
	if e.Fixed {
		e.Address = own.Address
	}
	if e.Departure == election.Present && e != own {
		own.Version++ // it has moved, or has a new rank: all members must receive that
	}
	return own
}

// Clone returns an independent copy.
func (r *Roster) Clone() Roster {
	c := *r
	c.tombstones, c.forgotten = slices.Clone(r.tombstones), slices.Clone(r.forgotten)
	return c
}

// All returns the list, tombstones included, in the order of the ids. The caller must not change
// it. It stays the same when the list changes.
func (r *Roster) All() []election.Member { return r.list }

// Digest returns a short sum of the list: see [election.Digest].
func (r *Roster) Digest() uint32 { return r.digest }

func byID(e election.Member, id election.ID) int { return e.ID.Compare(id) }

// Entry returns a member's entry, or its tombstone.
func (r *Roster) Entry(id election.ID) (election.Member, bool) {
	i, ok := slices.BinarySearchFunc(r.list, id, byID)
	if !ok {
		return election.Member{}, false
	}
	return r.list[i], true
}

// Above returns e with a version above the entry that it replaces, and whether that changes
// anything. It does not change the list: [Roster.Merge] does.
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

// Merge adds the entries that supersede those on the list, and returns them as news. stale are
// entries forgotten here that other members still have.
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
		if e.Fixed && ok && (old.Fixed || old.Version == 0) {
			e.Address = old.Address
		}
		e.New = e.New && (e.ID != r.self || e.Departure != election.Left) // this member is here, and asks to return
		if news == nil {
			r.list = slices.Clone(r.list) // callers of All keep the old list
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

// Fits reports whether the list has room for e, in place of the entry with the same id if there
// is any. An entry that is no larger than before fits.
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

// bounded removes from a list what exceeds its bounds, the highest ids first, except what keep
// names. A disk may hold more than a list may: an earlier version had no bound in bytes.
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
