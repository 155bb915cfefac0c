package roster

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps the list within its bounds: old tombstones are forgotten, and that is
// remembered for a while.

// ForgetAfter is how long a member that a join has added may stay silent. It is also how long a
// forgotten entry is remembered.
const ForgetAfter = time.Minute

// forgotten remembers an entry for a while after it has left the list. Otherwise earlier
// messages of members that still have it would bring it back, and its removal and its return
// would circulate forever.
type forgotten struct {
	election.Member
	at time.Time
}

// forgets reports whether an entry that is not on the list stays forgotten. Either e marks
// itself as forgotten, which is recorded, or it was forgotten recently, by a version that e does
// not supersede.
func (r *Roster) forgets(now time.Time, e election.Member) bool {
	old, ok := r.lately(now, e.ID)
	if !e.Forgotten() {
		return ok && !e.Supersedes(old)
	}
	r.forgotten = slices.DeleteFunc(r.forgotten, func(f forgotten) bool {
		return f.ID == e.ID || now.Sub(f.at) > ForgetAfter
	})
	if ok && old.Supersedes(e) {
		e = old
	}
	if len(r.forgotten) == election.MaxMembers { // no list has so many: a member invents them
		r.forgotten = slices.Delete(r.forgotten, 0, 1)
	}
	r.forgotten = append(r.forgotten, forgotten{e, now})
	return true
}

// lately returns an entry that was forgotten recently.
func (r *Roster) lately(now time.Time, id election.ID) (election.Member, bool) {
	i := slices.IndexFunc(r.forgotten, func(f forgotten) bool { return f.ID == id && now.Sub(f.at) <= ForgetAfter })
	if i < 0 {
		return election.Member{}, false
	}
	return r.forgotten[i].Member, true
}

// forgettable reports whether e is a tombstone that may be forgotten: its member has left, or a
// leader has removed it because it was absent. That of a member that a user has removed stays.
func (r *Roster) forgettable(e election.Member) bool {
	return e.ID != r.self && (e.Departure == election.Left && !e.New || e.Departure == election.Removed && e.New)
}

// noteTombstone records an entry if it may be forgotten, in the order in which this member learned
// of it.
func (r *Roster) noteTombstone(e election.Member) {
	if at := slices.Index(r.tombstones, e.ID); at >= 0 {
		r.tombstones = slices.Delete(r.tombstones, at, at+1)
	}
	if r.forgettable(e) {
		r.tombstones = append(r.tombstones, e.ID)
	}
}

// Old returns the entries to merge so that those that left longest ago are forgotten. The list
// then stays within three quarters of its bounds: members that come and leave would fill it in
// the end.
func (r *Roster) Old() (due []election.Member) {
	count, size := len(r.list)-election.MaxMembers*3/4, election.ListBytes(r.list)-election.MaxListBytes*3/4
	for _, id := range r.tombstones {
		if count <= 0 && size <= 0 {
			break
		}
		if e, ok := r.Entry(id); ok && r.forgettable(e) {
			count, size = count-1, size-e.Size()
			e.Departure, e.New = election.Left, true
			e.Version++
			due = append(due, e)
		}
	}
	return due
}
