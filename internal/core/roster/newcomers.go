package roster

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file lets newcomers onto the list. Whoever reaches a member may ask to join, so
// what joins do to the list is bounded.

// A member lets joinBurst newcomers in at once, and one every joinEvery after that.
const (
	joinBurst = 256
	joinEvery = 250 * time.Millisecond
)

// versionLead is how far a newcomer's word on the version of its own entry is believed,
// above the known one.
const versionLead = 1 << 8

// MayEnter reports whether e may come onto the list by a join: nil, or why not. closed
// says that nobody joins who is not on it. It changes nothing.
func (r *Roster) MayEnter(e election.Member, closed bool) error {
	if _, err := election.ParseID(string(e.ID)); err != nil {
		return err
	}
	known, ok := r.Entry(e.ID)
	switch {
	case ok && known.Departure == election.Removed:
		return election.ErrRemoved
	case !ok && closed:
		return fmt.Errorf("%w: its members are a fixed list, and %s is not on it; a user adds it (batuta members add), or gives the members addresses to join through too", election.ErrNotMember, e.ID)
	case e.ID.Kind() != r.self.Kind():
		return fmt.Errorf("%w: %s is a %v, here they are of kind %v", election.ErrMixedKind, e.ID, e.ID.Kind(), r.self.Kind())
	case !r.Fits(e):
		return election.ErrFull
	}
	if e, changes := r.Newcomer(e); changes && generation(e.Version+1) != generation(known.Version) {
		return election.ErrWornOut
	}
	return nil
}

// generation counts what users have decided of an entry. A removal begins the next:
// nothing that a member says of itself reaches so far.
func generation(version uint64) uint64 { return version / election.RemovalLead }

// Newcomer is the entry with which e joins, and whether that changes the list.
func (r *Roster) Newcomer(e election.Member) (entry election.Member, changes bool) {
	known, ok := r.Entry(e.ID)
	if generation(e.Version) != generation(known.Version) || e.Version > known.Version+versionLead {
		e.Version = 0 // that cannot be, or a user had a part in it, of whom members tell
	}
	e.Version = max(e.Version, known.Version)
	e.Departure, e.Fixed, e.New = election.Present, false, !ok || known.New
	e.Pinned = known.Pinned && e.Priority == known.Priority
	return e, known.Version == 0 || e != known
}

// Crowded reports whether so many have joined of late that the next has to wait.
func (r *Roster) Crowded(now time.Time) bool {
	return r.joins.After(now.Add((joinBurst - 1) * joinEvery))
}

// CountJoin counts a join that has changed the list.
func (r *Roster) CountJoin(now time.Time) {
	if r.joins.Before(now) {
		r.joins = now
	}
	r.joins = r.joins.Add(joinEvery)
}
