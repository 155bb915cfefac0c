package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// judge decides whether the members agree as they are promised to. It changes nothing, except that
// it names the rule that they break.
type judge struct{ *scene }

// agreement returns the token on which all live members of each group agree. With promised it
// skips groups without a promise of agreement. If ok is false, why is the reason. The token is
// that of the highest group.
func (w *judge) agreement(promised bool) (top election.Token, why string, ok bool) {
	for _, group := range w.groups() {
		if promised && !w.withinTwo(group) {
			continue // only the rules of every step apply to it
		}
		t, why := w.groupAgrees(group)
		if why != "" {
			return election.Token{}, why, false
		}
		if t.Above(top) {
			top = t
		}
	}
	return top, "", true
}

// groups returns the live members by what they can reach in both directions, usually a single
// group. A process that is about to end is in none.
func (w *judge) groups() [][]*process {
	var groups [][]*process
	seen := make([]bool, len(w.procs))
	for _, p := range w.procs[:w.net.n] {
		seen[p.place] = w.roster && p.condition == scenario.Alive && p.goes()
	}
	for _, p := range w.procs[:w.net.n] {
		if p.condition != scenario.Alive || seen[p.place] {
			continue
		}
		group := append(make([]*process, 0, w.net.n), p)
		seen[p.place] = true
		for i := 0; i < len(group); i++ {
			for _, q := range w.procs[:w.net.n] {
				if q.condition == scenario.Alive && !seen[q.place] && w.reach(group[i], q) && w.related(group[i], q) {
					seen[q.place] = true
					group = append(group, q)
				}
			}
		}
		groups = append(groups, group)
	}
	return groups
}

// withinTwo reports whether each two of a group reach each other, directly or through a third
// member. Only such groups have a promise of agreement.
func (w *judge) withinTwo(group []*process) bool {
	if w.quorum {
		return w.complete(group)
	}
	return eachTwo(group, func(a, b *process) bool {
		return w.meet(a, b) || slices.ContainsFunc(group, func(c *process) bool { return w.meet(a, c) && w.meet(c, b) })
	})
}

// meet reports whether two live processes reach each other: either lists the other at its own address.
// So does each, in time, where a third member that both meet carries the lists: a member takes its place
// back from a second process that has ended. Of two that have moved, neither does.
// Members of a quorum that bar each other do not meet: one of them has noted the disk of a second
// process for the other's.
func (w *judge) meet(a, b *process) bool {
	switch {
	case !w.reach(a, b), w.quorum && (a.bars(b) || b.bars(a)):
		return false
	case w.lists(a, b):
		return true
	}
	return (a.moves == 0 || b.moves == 0) && slices.ContainsFunc(w.procs[:w.net.n], func(c *process) bool {
		return c.condition == scenario.Alive && w.reach(a, c) && w.reach(c, b) && w.lists(a, c) && w.lists(c, b)
	})
}

// lists reports whether either of two lists the other at its own address: neither a former one, nor
// that of a second process.
func (w *judge) lists(a, b *process) bool { return w.has(a, b) || w.has(b, a) }

// has reports whether a lists b at b's own address.
func (w *judge) has(a, b *process) bool {
	return (!w.roster || a.machine.Knows(b.rank.ID)) && w.listed(a, b.slot) == b
}

// bars reports whether p, of a quorum, ignores q's messages.
func (p *process) bars(q *process) bool {
	return slices.Contains(p.machine.(leaseholder).Votes().Barred, q.rank.ID)
}

func eachTwo(group []*process, ok func(a, b *process) bool) bool {
	for i, a := range group {
		if slices.ContainsFunc(group[:i], func(b *process) bool { return !ok(a, b) }) {
			return false
		}
	}
	return true
}

// related reports whether two live processes belong to the same cluster: either has the other on
// its list. If either has not been admitted yet, both must.
func (w *judge) related(a, b *process) bool {
	if a.sameTimes(b) != nil {
		return false
	}
	if !w.roster {
		return true
	}
	if a.waits() || b.waits() {
		return a.machine.Knows(b.rank.ID) && b.machine.Knows(a.rank.ID) && w.meet(a, b)
	}
	return w.finds(a, b) || w.finds(b, a) || w.estranged(a, b)
}

// finds reports whether a has b on its list: at its own address, not at that of a second process,
// and not only from a configuration while b has joined elsewhere.
func (w *judge) finds(a, b *process) bool {
	return w.has(a, b) && !w.astray(a, b)
}

// goes reports whether a process yields to a member that it has removed, once its disk answers.
func (p *process) goes() bool {
	m, ok := p.machine.(interface{ Yields() bool })
	return ok && m.Yields() && p.disk.hangs()
}

// estranged reports whether two processes have removed each other, and have no further live member
// on their lists. That with the lower id must end. It detects that when it leads, which takes a
// working disk, and no members that it must receive.
func (w *judge) estranged(a, b *process) bool {
	lower := a
	if a.rank.ID.Compare(b.rank.ID) > 0 {
		lower = b
	}
	return w.setup.MinMembers < 2 && a.removed(b) && b.removed(a) && w.alone(a) && w.alone(b) && !lower.disk.hangs()
}

// removed reports whether q has been removed, according to p.
func (p *process) removed(q *process) bool {
	e, ok := p.machine.Entry(q.rank.ID)
	return ok && e.Departure == election.Removed
}

// alone reports whether no further member on p's list is alive.
func (w *judge) alone(p *process) bool {
	return !slices.ContainsFunc(w.procs[:w.net.n], func(q *process) bool {
		return q != p && q.condition == scenario.Alive && p.machine.Knows(q.rank.ID)
	})
}

// astray reports whether a has b only from a configuration (its own, or that of the member that
// admitted it), while b has joined elsewhere: b began without a file, where a is on no list.
func (w *judge) astray(a, b *process) bool {
	e, _ := a.machine.Entry(b.rank.ID)
	return e.Version == 0 && e.Number == 0 && len(b.through) > 0
}

// refused reports whether p is refused, so that it does not count as a candidate. Either a member
// that p has only from a configuration has joined elsewhere, and refuses p, or did before it ended.
// Or more members refuse p for its times than share them, or as many, and they have the greatest id.
func (w *judge) refused(p *process) bool {
	return w.outnumbered(p) || w.roster && slices.ContainsFunc(w.procs[:w.net.n], func(q *process) bool {
		switch {
		case q == p || q.machine == nil || !w.has(p, q) || !w.astray(p, q):
			return false
		case q.condition == scenario.Alive && w.reach(p, q):
			return !q.joins() && !q.machine.Knows(p.rank.ID)
		}
		return p.machine.Standing() == election.IneligibleRefused
	})
}

// joins reports whether a process joins, and has no member yet: it refuses none.
func (p *process) joins() bool {
	return len(p.machine.Members()) == 1 && !p.machine.View().Defined()
}

func (w *judge) outnumbered(p *process) bool {
	refuse, side := 0, 0
	greatest := p
	for _, q := range w.procs[:w.net.n] {
		switch {
		case q.condition != scenario.Alive || !w.reach(p, q) || w.roster && !p.machine.Knows(q.rank.ID):
			continue
		case p.sameTimes(q) != nil:
			refuse++
		default:
			side++
		}
		if q.rank.ID.Compare(greatest.rank.ID) > 0 {
			greatest = q
		}
	}
	return refuse > side || refuse == side && p.sameTimes(greatest) != nil
}

// waits reports whether no member has admitted p yet.
func (p *process) waits() bool { return len(p.through) > 0 && !p.asks.Admitted() }

// orphaned reports whether a group is a single member that has learned that it left, and no
// member through which it joins is alive.
func (w *judge) orphaned(group []*process) bool {
	p := group[0]
	return len(group) == 1 && w.roster && !p.onOwnList() &&
		!slices.ContainsFunc(p.through, func(slot int) bool { return w.procs[slot].condition == scenario.Alive })
}

func (w *judge) groupAgrees(group []*process) (election.Token, string) {
	t := group[0].view
	if w.quorum {
		return w.quorumAgrees(group)
	}
	switch {
	case w.orphaned(group):
		return t, ""
	case !slices.ContainsFunc(group, func(p *process) bool { return w.mayLead(p) && !w.refused(p) }) || !w.founded(group), len(group) < w.setup.MinMembers:
		return t, unled(group, "no member there may lead")
	case !slices.ContainsFunc(group, func(p *process) bool { return w.mayLead(p) && !w.refused(p) && !p.disk.hangs() }) && unled(group, "") == "":
		return t, "" // no claim can be saved; an earlier leader may go on
	case !t.Defined():
		return t, fmt.Sprintf("%s knows no leader", group[0].rank.ID)
	}
	led := false
	for _, p := range group {
		switch {
		case p.view != t:
			return t, fmt.Sprintf("%s has %s for its leader and %s has %s", group[0].rank.ID, invariant.OrNone(t), p.rank.ID, invariant.OrNone(p.view))
		case p.rank.ID == t.Leader.ID && !p.fit() && slices.ContainsFunc(group, w.stands):
			return t, fmt.Sprintf("%v leads, which is unhealthy, and others are not", t)
		case p.rank.ID == t.Leader.ID:
			led = true
		}
	}
	if w.roster {
		if why := w.oneList(group); why != "" {
			return t, why
		}
	}
	if !led {
		return t, fmt.Sprintf("all follow %v, which is not there", t)
	}
	if !w.setup.NoPreempt {
		for _, p := range group {
			if p.machine.Self().Above(w.bySlot(t.Leader.ID).machine.Self()) && w.stands(p) {
				return t, fmt.Sprintf("%v leads, and the candidate %s outranks it", t, p.rank.ID)
			}
		}
	}
	return t, w.namedAgree(group, w.bySlot(t.Leader.ID))
}

// founded reports whether a group may have its first leader, or has a member with an earlier
// leadership. The first leader needs a working disk. Of a member with a hung disk, only the
// token on that disk counts.
func (w *judge) founded(group []*process) bool {
	able := func(p *process) bool { return w.setup.NoDisk || !p.disk.hangs() }
	switch {
	case slices.ContainsFunc(group, func(p *process) bool { return p.disk.now.Token.Defined() || able(p) && p.machine.Highest() > 0 }):
		return true
	case w.setup.Expect > 0:
		return slices.ContainsFunc(group, func(p *process) bool { return w.mayLead(p) && w.hears(p, group) >= w.setup.Expect })
	}
	return !w.setup.Newcomer || slices.ContainsFunc(group, func(p *process) bool { return able(p) && len(p.through) == 0 && w.mayLead(p) })
}

// hears counts the members of a group, itself included, that p reaches directly.
func (w *judge) hears(p *process, group []*process) (n int) {
	for _, q := range group {
		if w.reach(p, q) { // itself, too
			n++
		}
	}
	return n
}

// fit reports whether a process may lead, and its health check passes.
func (p *process) fit() bool { return !p.observer && !p.unhealthy }

// stands reports whether p is a candidate; a disk that takes T prevents that.
func (w *judge) stands(p *process) bool {
	return p.fit() && !p.resting && !p.retired && !p.working && p.machine.Standing() != election.IneligibleFew && p.machine.Standing() != election.IneligiblePaused && p.disk.slow < w.setup.Timing.T() && !w.refused(p)
}

// unled returns "" if no member of a group has a leader; none may, because of why.
func unled(group []*process, why string) string {
	for _, p := range group {
		if p.view.Defined() {
			return fmt.Sprintf("%s follows %v, and %s", p.rank.ID, p.view, why)
		}
	}
	return ""
}

// oneList returns "" if all of a group hold the same list and are on it.
func (w *judge) oneList(group []*process) string {
	first := w.settledList(group[0])
	for _, p := range group {
		switch list := w.settledList(p); {
		case p.halted != nil:
			return fmt.Sprintf("%s has not ended: %v", p.rank.ID, p.halted)
		case !slices.Equal(list, first):
			return fmt.Sprintf("%s lists %s and %s lists %s", group[0].rank.ID, spellList(first), p.rank.ID, spellList(list))
		case !p.onOwnList():
			return fmt.Sprintf("%s is not on the list, and lives", p.rank.ID)
		}
	}
	return ""
}

// settledList returns p's list. It leaves out the address of a process that has moved, until a
// member admits it again: only then do the others learn that address.
func (w *judge) settledList(p *process) []election.Member {
	list := slices.Clone(p.machine.List())
	for i := range list {
		if q := w.bySlot(list[i].ID); q.moves > 0 && q.waits() {
			list[i].Address = ""
		}
	}
	return list
}

// spellList writes each member with its version and departure.
func spellList(list []election.Member) string {
	var words []string
	for _, e := range list {
		gone := map[election.Departure]string{election.Left: " left", election.Removed: " removed"}[e.Departure]
		rank := ""
		if e.Priority != 0 {
			rank = fmt.Sprintf(" priority %d", e.Priority)
		}
		words = append(words, fmt.Sprintf("%s/%d%s%s", e.ID, e.Version, rank, gone))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (w *judge) disagree(bound time.Duration, promised bool) {
	_, why, _ := w.agreement(promised)
	var views []string
	for _, p := range w.procs {
		if p.condition == scenario.Alive {
			views = append(views, string(w.name(p))+" → "+invariant.OrNone(p.view))
		}
	}
	rule := invariant.Converges
	if strings.HasPrefix(why, "election ") {
		rule = invariant.NamedLed
	}
	if strings.HasPrefix(why, "shares: ") {
		rule = invariant.NamedShares
	}
	if strings.Contains(why, " lists ") || strings.Contains(why, "has not ended") || strings.Contains(why, "on the list") {
		rule = invariant.OneList
	}
	w.checks.fail(w.scene, w.procs[0], rule, "%v after the last fault %s (views: %s)", bound, why, strings.Join(views, ", "))
}

// untold finds two members of a group of which p lacks the metadata of q; nil: there are none. In
// a quorum the leader passes metadata on, so a member without a leader is promised nothing.
func (w *judge) untold() (p, q *process) {
	for _, group := range w.groups() {
		if !w.complete(group) {
			continue
		}
		for _, p := range group {
			if w.quorum && !p.view.Defined() {
				continue
			}
			for _, q := range group {
				says := cmp.Or(q.says, scenario.Nothing)
				if p != q && p.machine.Knows(q.rank.ID) && q.machine.Knows(p.rank.ID) && p.told(q.rank.ID) != says {
					return p, q
				}
			}
		}
	}
	return nil, nil
}

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
	if len(w.contested) == 0 || coordinator == nil || coordinator.assigned == nil || !w.complete(group) {
		return ""
	}
	drained := coordinator.assigned.Drained()
	var contests []*contest
	led := 0
	for _, name := range w.contested {
		k := contestOf(name, group, drained)
		if why := w.filled(k, group); why != "" {
			return why
		}
		for _, p := range k.leads {
			if slices.Contains(drained, p.rank.ID) { // by force: see world.drain
				return fmt.Sprintf("election %s is led by %s, which is drained", k.name, p.rank.ID)
			}
		}
		contests, led = append(contests, k), led+len(k.leads)
	}
	for _, p := range group {
		if len(p.sees) != led {
			return fmt.Sprintf("election counts differ: %s sees %d seats led, and %d are", p.rank.ID, len(p.sees), led)
		}
	}
	if n := coordinator.assigned.Moving(); n > 0 { // each may be the reason of the next
		return fmt.Sprintf("shares: %d seats are being handed over", n)
	}
	return evenly(contests, coordinator)
}

func contestOf(name string, group []*process, drained []election.ID) *contest {
	k := &contest{name: name, weight: 1}
	for _, p := range group {
		how, stands := p.stoodFor[name]
		if k.weight = max(k.weight, how.Weight); stands && p.mayBeAssigned() && !slices.Contains(drained, p.rank.ID) {
			k.can, k.least = append(k.can, p), max(k.least, how.Seats)
		}
		if _, leads := p.leads[name]; leads {
			k.leads = append(k.leads, p)
		}
	}
	return k
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

// What follows judges the promise of an algorithm that never has two leaders.

// leaseholder is a core whose leadership holds for a time that it can report.
type leaseholder interface {
	Lease() (until time.Time, leads bool)
	Guard() time.Time
	Applied() (index, chain uint64)
	Committed() uint64
	Voters() [][]election.ID
	Settled() bool
	Votes() machine.QuorumView
	Durable(records [][]byte) (term uint64)
	Keeps(records [][]byte) bool
}

// complete reports whether each two of a group reach each other: the leader has no indirect way
// to its voters.
func (w *judge) complete(group []*process) bool { return eachTwo(group, w.meet) }

// majority reports whether able holds a majority of the voters, in both configurations during a
// change.
func majority(sets [][]election.ID, able []*process) bool {
	return len(sets) > 0 && !slices.ContainsFunc(sets, func(voters []election.ID) bool {
		n := 0
		for _, q := range able {
			if slices.Contains(voters, q.rank.ID) && q.machine.(leaseholder).Settled() {
				n++
			}
		}
		return 2*n <= len(voters)
	})
}

// voters returns the voters by the most advanced log of a group. A returning member may still count
// by an older configuration, but its log is behind, so it cannot be elected by that.
func voters(group []*process) [][]election.ID {
	if p := furthest(group); p != nil {
		return p.machine.(leaseholder).Voters()
	}
	return nil
}

// furthest returns the process of a group with the most advanced log; nil: none has a log.
func furthest(group []*process) (knows *process) {
	most := uint64(0)
	for _, p := range group {
		if index, _ := p.machine.(leaseholder).Applied(); index > most {
			most, knows = index, p
		}
	}
	return knows
}

// seated leaves out the processes of a group that have lost their place on the list to a second process
// of their id. That one may have ended: its votes are lost.
func (w *judge) seated(group []*process) []*process {
	knows := furthest(group)
	if len(w.procs) == w.net.n || knows == nil {
		return group
	}
	return slices.DeleteFunc(slices.Clone(group), func(p *process) bool { return p != knows && w.listed(knows, p.slot) != p })
}

// electable reports whether a member of a group may lead and is one of the voters. A newcomer that has yet
// to learn the log becomes a voter only under a leader.
func (w *judge) electable(sets [][]election.ID, group []*process) bool {
	return slices.ContainsFunc(group, func(p *process) bool {
		return w.mayLead(p) && slices.ContainsFunc(sets, func(ids []election.ID) bool { return slices.Contains(ids, p.rank.ID) })
	})
}

// quorumAgrees is groupAgrees where a majority decides. A member with a stuck disk cannot take
// anything up and is skipped; what only it has received does not count. A full disk stops no member
// that has a log.
func (w *judge) quorumAgrees(group []*process) (t election.Token, why string) {
	group = w.seated(group)
	working := slices.DeleteFunc(slices.Clone(group), func(p *process) bool { return p.disk.stuck() || !p.machine.(leaseholder).Settled() })
	all, able := voters(group), voters(working)
	switch {
	case !majority(all, group), !w.electable(all, group):
		return t, unled(group, "no majority is there")
	case !majority(all, working), !majority(able, working), !w.electable(able, working):
		return t, "" // no member can be elected; an earlier leader may go on
	}
	for i, p := range working {
		switch {
		case i == 0:
			t = p.view
		case p.view != t:
			return t, fmt.Sprintf("%s has %s for its leader and %s has %s", working[0].rank.ID, invariant.OrNone(t), p.rank.ID, invariant.OrNone(p.view))
		}
	}
	if !t.Defined() {
		return t, fmt.Sprintf("%s knows no leader, and a majority is there", working[0].rank.ID)
	}
	leader := w.bySlot(t.Leader.ID)
	if !slices.Contains(group, leader) { // its disk may hang since: it has nothing to write
		return t, fmt.Sprintf("all follow %v, which is not there", t)
	}
	for _, p := range working {
		better := !w.setup.NoPreempt && p.machine.Self().Above(leader.machine.Self()) || !leader.fit()
		if p != leader && better && w.stands(p) {
			return t, fmt.Sprintf("%v leads, and the candidate %s outranks it", t, p.rank.ID)
		}
	}
	return t, ""
}
