// Package reaper decides when a leader removes members that have been away for long. It is
// pure: it has no clock.
package reaper

import (
	"cmp"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Member is a member as its leader sees it.
type Member struct {
	ID    election.ID
	Away  bool // down, or not reached
	Votes bool // it counts in a majority
}

// Reaper counts how long members have been away under the present leader. A leader removes by
// it; a follower only shows by it what the leader will do. The zero value reaps no member.
type Reaper struct {
	after  time.Duration
	most   int         // the most voters that there were at a time
	leader election.ID // under it the times count
	looked time.Time
	away   []absence // the longest first; never changed in place
	due    []absence // with the time at which each is reaped; never changed in place
}

type absence struct {
	id election.ID
	at time.Time
}

// New returns a Reaper of members that have been away for after; 0: of none.
func New(after time.Duration) Reaper { return Reaper{after: after} }

// Look takes in the members as they are now, this one included, under leader. most is how many
// voted at the most, as far as the caller knows. A pause between two looks that is longer than
// pause counts for nothing: this process was stopped, and received no member.
func (r *Reaper) Look(now time.Time, pause time.Duration, leader election.ID, most int, members []Member) {
	if r.after <= 0 {
		return
	}
	stopped := now.Sub(r.looked)
	if r.looked.IsZero() || stopped <= pause {
		stopped = 0
	}
	if r.leader != leader || leader == election.None {
		r.leader, r.away = leader, nil
	}
	voters, present := 0, 0
	var away []absence
	for _, m := range members {
		if m.Votes {
			voters++
		}
		switch i := slices.IndexFunc(r.away, func(a absence) bool { return a.id == m.ID }); {
		case !m.Away && m.Votes:
			present++
		case !m.Away || leader == election.None:
		case i < 0:
			away = append(away, absence{m.ID, now})
		default:
			away = append(away, absence{m.ID, r.away[i].at.Add(stopped)})
		}
	}
	slices.SortStableFunc(away, func(a, b absence) int { return cmp.Or(a.at.Compare(b.at), a.id.Compare(b.id)) })
	r.looked, r.away, r.most = now, away, max(r.most, most, voters)
	r.due = nil
	for _, a := range away {
		votes := slices.ContainsFunc(members, func(m Member) bool { return m.ID == a.id && m.Votes })
		switch {
		case 2*present <= voters: // this side may be the smaller of two
			return
		case votes && 2*(voters-1) <= r.most:
			continue // those that are left would be no majority of the most there were
		case votes:
			voters--
		}
		r.due = append(r.due, absence{a.id, a.at.Add(r.after)})
	}
}

// Due returns the member that the leader removes now; none: [election.None].
func (r *Reaper) Due() election.ID {
	if len(r.due) > 0 && !r.looked.Before(r.due[0].at) {
		return r.due[0].id
	}
	return election.None
}

// At returns when a member is reaped if it stays away; zero: it is not.
func (r *Reaper) At(id election.ID) time.Time {
	for _, a := range r.due {
		if a.id == id {
			return a.at
		}
	}
	return time.Time{}
}
