package named

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// contests are the names that a coordinator assigns, each with its candidates and its seats.
// It decides which candidate should lead, and reaches no member.
type contests struct {
	byName map[string]*contest
	order  []*contest   // by name; see ordered
	stale  bool         // order lacks a name, or has a name too many
	room   []*candidate // the array that candidates returns, used again
}

// contest is a name, its candidates and its seats.
type contest struct {
	name       string
	weight     int
	want       int         // seats
	candidates []candidate // in order
	seats      []*seat
	last       uint64 // the highest epoch known
	entry      *entry // of its first seat in the table, if there was any when this coordinator began
	reportedIn uint64 // the number of the last full report that names it
	todo       bool   // it is in the coordinator's todo
	changed    bool   // it is in the coordinator's changed
}

// candidate is what a member has reported on a name. There are as many as names times members,
// so the type is kept small.
type candidate struct {
	of     *peer
	held   uint64 // the epoch under which it holds a seat or still works; 0: none
	weight int32  // at most MaxWeight
	seats  int8   // at most MaxSeats
	stands bool
	prefer bool
}

type seat struct {
	index    int
	leader   election.ID
	epoch    uint64
	top      uint64      // the highest epoch that a member has reported for it
	last     election.ID // the leader of epoch, as far as is known
	charged  *peer       // the member that has it in its load
	expected bool        // its leader has not reported it to this coordinator
	to       election.ID // its next leader, if it can
	avoid    election.ID // the member that has just given it away
	pin      bool        // its next leader is chosen by hand
	pinned   bool
	changed  bool      // members have yet to receive it
	asked    time.Time // when its leader was asked to release it; zero: it was not
	why      string    // of that
	cause    election.Cause
}

// decided forgets what was meant for a seat: it has its next leader.
func (s *seat) decided() { s.pin, s.why, s.to, s.avoid = false, "", election.None, election.None }

// contest returns the contest of a name, and makes it if need be.
func (all *contests) contest(name string) *contest {
	k := all.byName[name]
	if k == nil {
		k = &contest{name: name, weight: 1, want: 1}
		all.byName[name] = k
		all.stale = true
	}
	return k
}

// ordered returns all contests, by name.
func (all *contests) ordered() []*contest {
	if all.stale {
		all.order, all.stale = slices.SortedFunc(maps.Values(all.byName), byName), false
	}
	return all.order
}

func byName(a, b *contest) int { return strings.Compare(a.name, b.name) }

// drop forgets a contest.
func (all *contests) drop(k *contest) {
	delete(all.byName, k.name)
	all.stale = true
}

// candidates returns, in order, the members that may be given a seat of a name, except for a
// given member. The list is valid until the next call; it depends on able, which refit sets.
func (all *contests) candidates(k *contest, but *peer) (list []*candidate) {
	list = all.room[:0]
	for i := range k.candidates {
		if can := &k.candidates[i]; can.of.able && can.stands && can.held == 0 && can.of != but && !k.sits(can.of.id) {
			list = append(list, can)
		}
	}
	all.room = list
	return list
}

// sits reports whether a member leads a seat of a name.
func (k *contest) sits(id election.ID) bool {
	return slices.ContainsFunc(k.seats, func(s *seat) bool { return s.leader == id })
}

// next is the member that a seat is meant for when it has no leader.
func (k *contest) next(s *seat) election.ID {
	if s.index < k.want && (s.leader == election.None || !s.asked.IsZero()) {
		return s.to
	}
	return election.None
}

// comes reports whether a seat of a name is meant for a member.
func (k *contest) comes(id election.ID) bool {
	return slices.ContainsFunc(k.seats, func(s *seat) bool { return k.next(s) == id })
}

// worstFirst returns the seats of a name, first those that the next member to come should take. Its
// leader is then not interrupted for another seat of that name.
func (k *contest) worstFirst(drained func(election.ID) bool) []*seat {
	if len(k.seats) == 1 {
		return k.seats
	}
	load := func(s *seat) int {
		if can := k.leader(s); can != nil {
			return can.of.load
		}
		return 0
	}
	return slices.SortedStableFunc(slices.Values(k.seats), func(a, b *seat) int {
		return cmp.Or(k.stays(a, drained)-k.stays(b, drained), load(b)-load(a))
	})
}

// stays is how much there is for the leader of a seat to stay in it.
func (k *contest) stays(s *seat, drained func(election.ID) bool) int {
	can := k.leader(s)
	switch {
	case s.index >= k.want:
		return 5 // no member comes there
	case s.pin && s.to != election.None:
		return 4 // its next leader is chosen by hand
	case s.leader == election.None:
		return 0
	case !s.asked.IsZero(), drained(s.leader):
		return 1
	case s.pinned:
		return 4
	case can != nil && can.prefer:
		return 3
	}
	return 2
}

// best returns the candidate that should lead a seat next; nil: none can.
func (all *contests) best(k *contest, s *seat) *candidate {
	list := all.candidates(k, nil)
	if i := slices.IndexFunc(list, func(can *candidate) bool { return can.of.id == s.to }); i >= 0 {
		return list[i]
	}
	list = except(list, func(can *candidate) bool { return can.of.id == s.avoid })
	return leastLoaded(except(list, func(can *candidate) bool { return k.comes(can.of.id) }))
}

// except returns a list without some, or all of it if it has no others.
func except(list []*candidate, without func(*candidate) bool) []*candidate {
	if !slices.ContainsFunc(list, func(can *candidate) bool { return !without(can) }) {
		return list
	}
	return slices.DeleteFunc(list, without)
}

// leastLoaded returns the candidate with the least load, of those that prefer the name if any do.
func leastLoaded(list []*candidate) (best *candidate) {
	for _, can := range list {
		switch {
		case best == nil, can.prefer && !best.prefer, can.prefer == best.prefer && can.of.load < best.of.load:
			best = can
		}
	}
	return best
}

// needs reports whether fewer members than now could lead a name without that candidate. A leader
// that is drained does not count, nor one that is no longer a candidate.
func (all *contests) needs(k *contest, p *peer, drained func(election.ID) bool) bool {
	if can := k.candidate(p); can == nil || !can.stands {
		return false
	}
	led, others := 0, len(all.candidates(k, p))
	for _, s := range k.seats {
		if s.leader == election.None {
			continue
		}
		led++
		can := k.leader(s) // nil: it has yet to report
		if s.leader != p.id && !drained(s.leader) && (can == nil || can.stands) {
			others++
		}
	}
	return others < max(min(led, k.want), 1)
}

// leader returns the leader of a seat as a candidate; nil: it is none.
func (k *contest) leader(s *seat) *candidate {
	for i := range k.candidates {
		if k.candidates[i].of.id == s.leader {
			return &k.candidates[i]
		}
	}
	return nil
}

// candidate returns a member as a candidate; nil: it is none. It is good until the next enters.
func (k *contest) candidate(p *peer) *candidate {
	for i := range k.candidates {
		if k.candidates[i].of == p {
			return &k.candidates[i]
		}
	}
	return nil
}

// enters makes a member a candidate. The contest makes room for as many as there are members.
func (k *contest) enters(p *peer, members int) *candidate {
	if k.candidates == nil {
		k.candidates = make([]candidate, 0, members) // most are candidates, as a rule
	}
	k.candidates = append(k.candidates, candidate{of: p})
	at := len(k.candidates) - 1
	for ; at > 0 && k.candidates[at-1].of.id.Compare(p.id) > 0; at-- {
		k.candidates[at-1], k.candidates[at] = k.candidates[at], k.candidates[at-1]
	}
	return &k.candidates[at]
}

// leaves ends a member's candidacy.
func (k *contest) leaves(p *peer) {
	k.candidates = slices.DeleteFunc(k.candidates, func(can candidate) bool { return can.of == p })
}

// seat returns a seat of a contest, and makes it if need be.
func (k *contest) seat(i int) *seat {
	for len(k.seats) <= i {
		k.seats = append(k.seats, &seat{index: len(k.seats)})
	}
	return k.seats[i]
}

// busy counts the members that lead a seat of the name, including a seat that it no longer has,
// and those that still work for a seat they have lost, as after a partition. A member that is
// silent or down counts again when it is received: what it has reported may still be so.
func (k *contest) busy() (n int) {
	for _, s := range k.seats {
		if s.leader != election.None {
			n++
		}
	}
	for i := range k.candidates {
		if can := &k.candidates[i]; can.held > 0 && !can.of.silent && !can.of.down && !k.sits(can.of.id) {
			n++
		}
	}
	return n
}
