package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// contest is a named election as a group of members has it.
type contest struct {
	name   string
	weight int
	least  int        // the most slots of any eligible candidacy
	can    []*process // members that may lead it
	leads  []*process
}

// namedAgree returns "" if each name with a candidate in the group has as many leaders as
// possible, all members agree on them, and no member exceeds its share.
func (w *judge) namedAgree(group []*process, coordinator *process) string {
	if !w.named || coordinator == nil || coordinator.assigned == nil || !w.complete(group) {
		return ""
	}
	drained := coordinator.assigned.Drained()
	contests, led := w.contests(group, drained), 0
	for _, k := range contests {
		if why := w.filled(k, group); why != "" {
			return why
		}
		for _, p := range k.leads {
			if slices.Contains(drained, p.rank.ID) { // by force: see world.drain
				return fmt.Sprintf("election %s is led by %s, which is drained", k.name, p.rank.ID)
			}
		}
		led += len(k.leads)
	}
	for _, p := range group {
		if len(p.sees) != led {
			return fmt.Sprintf("election after election: %s sees %d seats led, and %d are", p.rank.ID, len(p.sees), led)
		}
	}
	return evenly(contests, coordinator)
}

// contests returns the named elections of a group, by name.
func (w *judge) contests(group []*process, drained []election.ID) (list []*contest) {
	names := map[string]*contest{}
	of := func(name string) *contest {
		if names[name] == nil {
			names[name] = &contest{name: name, weight: 1}
		}
		return names[name]
	}
	for _, p := range group {
		for name, how := range p.stoodFor {
			k := of(name)
			k.weight = max(k.weight, how.Weight)
			if !p.mayBeAssigned() || slices.Contains(drained, p.rank.ID) {
				continue
			}
			k.can, k.least = append(k.can, p), max(k.least, how.Seats)
		}
		for name := range p.leads {
			k := of(name)
			k.leads = append(k.leads, p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		list = append(list, names[name])
	}
	return list
}

// most returns how many may lead an election. The last candidacies of members outside of the
// group are not known.
func (w *judge) most(k *contest, group []*process) (most int) {
	if len(group) < len(w.procs) {
		return w.seats[k.name]
	}
	for _, p := range group {
		most = max(most, p.stoodFor[k.name].Seats)
	}
	return most
}

// filled returns "" if as many members lead an election as can, and all members agree on them.
func (w *judge) filled(k *contest, group []*process) string {
	if n, least := len(k.leads), min(k.least, len(k.can)); n < least {
		return fmt.Sprintf("election %s has %d seats to fill and is led by %d", k.name, least, n)
	}
	if n, most := len(k.leads), w.most(k, group); n > most {
		return fmt.Sprintf("election %s has %d seats and is led by %d", k.name, most, n)
	}
	for _, q := range k.leads {
		l := q.leads[k.name]
		for _, p := range group {
			if sees := p.sees[place{k.name, l.seat}]; sees != l.Token {
				return fmt.Sprintf("election %s, seat %d, is led as %v, and %s sees %v", k.name, l.seat, l.Token, p.rank.ID, sees)
			}
		}
	}
	return ""
}

// evenly returns "" if no member leads a name that a different member should and could lead, by
// preference or by share.
func evenly(contests []*contest, coordinator *process) string {
	loads, heaviest := map[*process]int{}, 0
	for _, k := range contests {
		heaviest = max(heaviest, k.weight)
		for _, p := range k.leads {
			loads[p] += k.weight
		}
	}
	for _, k := range contests {
		for _, from := range k.leads {
			if coordinator.assigned.Pinned(k.name, from.leads[k.name].seat) {
				continue
			}
			for _, p := range k.can {
				prefers, preferred := p.stoodFor[k.name].Prefer, from.stoodFor[k.name].Prefer
				switch {
				case p.leads[k.name].Defined():
				case prefers && !preferred:
					return fmt.Sprintf("shares: %s leads %s, which %s prefers", from.rank.ID, k.name, p.rank.ID)
				case prefers == preferred && loads[from]-loads[p] > heaviest:
					return fmt.Sprintf("shares: %s leads as much as %d and %s, which could lead %s, %d", from.rank.ID, loads[from], p.rank.ID, k.name, loads[p])
				}
			}
		}
	}
	return ""
}

// mayBeAssigned reports whether a member's own state allows it to lead.
func (p *process) mayBeAssigned() bool {
	s := p.machine.Standing()
	return p.fit() && p.halted == nil && s != election.IneligibleJoining && s != election.IneligibleGone
}
