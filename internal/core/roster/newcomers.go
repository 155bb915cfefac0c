package roster

import (
	"fmt"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// This file admits newcomers to the list. Any process that reaches a member may ask to join, so
// the effect of joins on the list is bounded.

// A member admits joinBurst newcomers at once, and then a newcomer every joinEvery.
const (
	joinBurst = 256
	joinEvery = 250 * time.Millisecond
)

// versionLead is how far a newcomer's version of its own entry may exceed the version on the
// list.
const versionLead = 1 << 8

// MayEnter returns nil if e may be added by a join, or why not. If closed is set, only members
// on the list may join. MayEnter changes nothing.
func (r *Roster) MayEnter(e election.Member, closed bool) error {
	if _, err := election.ParseID(string(e.ID)); err != nil {
		return err
	}
	known, ok := r.Entry(e.ID)
	switch {
	case known.Departure == election.Removed:
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

// generation counts the decisions of users on an entry. A removal begins the next generation: no
// version from a member's own changes reaches so far.
func generation(version uint64) uint64 { return version / election.RemovalLead }

// Newcomer returns the entry with which e joins, and whether that changes the list.
func (r *Roster) Newcomer(e election.Member) (entry election.Member, changes bool) {
	known, ok := r.Entry(e.ID)
	if generation(e.Version) != generation(known.Version) || e.Version > known.Version+versionLead {
		e.Version = 0 // impossible, or a user's decision, which members announce
	}
	e.Version = max(e.Version, known.Version)
	e.Departure, e.Fixed, e.New = election.Present, false, !ok || known.New
	e.Pinned = known.Pinned && e.Priority == known.Priority
	return e, known.Version == 0 || e != known
}

// Crowded reports whether so many have joined recently that the next must wait.
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
