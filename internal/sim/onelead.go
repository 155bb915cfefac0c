package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// This file checks the promise of an algorithm that never has two leaders.

// leaseholder is a core whose leadership holds for a time that it can report.
type leaseholder interface {
	Lease() (until time.Time, leads bool)
	Guard() time.Time
	Applied() (index, chain uint64)
	Voters() [][]election.ID
	Settled() bool
	Durable(records [][]byte) (term uint64)
}

// complete reports whether each two of a group reach each other: the leader has no indirect way
// to its voters.
func (w *judge) complete(group []*process) bool {
	for i, a := range group {
		for _, b := range group[:i] {
			if !w.reach(a, b) {
				return false
			}
		}
	}
	return true
}

// majority reports whether able holds a majority of the voters, in both configurations during a
// change. The voters are those of the group's most advanced log. A returning member may still
// count by an older configuration, but its log is behind, so it cannot be elected by that.
func (w *judge) majority(group, able []*process) bool {
	sets := voters(group)
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

// voters returns the voters by the most advanced log of a group.
func voters(group []*process) [][]election.ID {
	furthest := uint64(0)
	var knows leaseholder
	for _, p := range group {
		core := p.machine.(leaseholder)
		if index, _ := core.Applied(); index > furthest {
			furthest, knows = index, core
		}
	}
	if knows == nil {
		return nil
	}
	return knows.Voters()
}

// electable reports whether a member of a group may lead and is a voter. A newcomer that has yet
// to learn the log becomes a voter only under a leader.
func (w *judge) electable(group []*process) bool {
	sets := voters(group)
	return slices.ContainsFunc(group, func(p *process) bool {
		return w.mayLead(p) && slices.ContainsFunc(sets, func(ids []election.ID) bool { return slices.Contains(ids, p.rank.ID) })
	})
}

// quorumAgrees is groupAgrees where a majority decides. A member with a hung disk cannot take
// anything up and is skipped; what only it has received does not count.
func (w *judge) quorumAgrees(group []*process) (t election.Token, why string) {
	working := slices.DeleteFunc(slices.Clone(group), func(p *process) bool { return p.disk.hangs() || !p.machine.(leaseholder).Settled() })
	switch {
	case !w.majority(group, group), !w.electable(group):
		return t, leaderless(group)
	case !w.majority(group, working), !w.majority(working, working), !w.electable(working):
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
		return t, fmt.Sprintf("all follow %v, who is not there", t)
	}
	for _, p := range working {
		better := !w.setup.NoPreempt && p.machine.Self().Above(leader.machine.Self()) || !leader.fit()
		if p != leader && better && w.stands(p) {
			return t, fmt.Sprintf("%v leads, and %s, which stands, outranks it", t, p.rank.ID)
		}
	}
	return t, ""
}

// leaderless returns "" if no member of a group without a majority has a leader.
func leaderless(group []*process) string {
	for _, p := range group {
		if p.view.Defined() {
			return string(p.rank.ID) + " has " + p.view.String() + " for its leader, and no majority is there"
		}
	}
	return ""
}
