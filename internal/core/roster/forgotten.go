package roster

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file keeps the list within its bounds: tombstones that are old are forgotten, and
// that is remembered for a while.

// ForgetAfter is how long somebody whom a join has put on the list may stay unheard, and
// how long it is remembered that an entry was forgotten.
const ForgetAfter = time.Minute

// forgotten remembers an entry for a while after it has left the list: what others
// had sent before they heard of it would bring it back, and the two would chase each
// other among the members for ever.
type forgotten struct {
	election.Member
	at time.Time
}

// forgets reports whether an entry that is not on the list says that it is forgotten,
// which is noted, or was so a while ago, by a version that e does not supersede.
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
	r.forgotten = append(r.forgotten, forgotten{e, now})
	return true
}

// lately is the entry of one that was forgotten a while ago.
func (r *Roster) lately(now time.Time, id election.ID) (election.Member, bool) {
	i := slices.IndexFunc(r.forgotten, func(f forgotten) bool { return f.ID == id && now.Sub(f.at) <= ForgetAfter })
	if i < 0 {
		return election.Member{}, false
	}
	return r.forgotten[i].Member, true
}

// noteTombstone notes of an entry when its member has left, as far as this one has heard.
func (r *Roster) noteTombstone(e election.Member) {
	if at := slices.Index(r.tombstones, e.ID); at >= 0 {
		r.tombstones = slices.Delete(r.tombstones, at, at+1)
	}
	if e.Departure == election.Left && !e.Forgotten() && e.ID != r.self {
		r.tombstones = append(r.tombstones, e.ID)
	}
}

// Old are the entries, to be merged, by which those that left longest ago are forgotten,
// so that the list stays within three quarters of its bounds: members that come and leave
// would fill it in the end. Nobody forgets who was removed.
func (r *Roster) Old() (due []election.Member) {
	count, size := len(r.list)-election.MaxMembers*3/4, election.ListBytes(r.list)-election.MaxListBytes*3/4
	for _, id := range r.tombstones {
		if count <= 0 && size <= 0 {
			break
		}
		if e, ok := r.Entry(id); ok && e.Departure == election.Left {
			count, size = count-1, size-e.Size()
			e.New = true
			e.Version++
			due = append(due, e)
		}
	}
	return due
}
