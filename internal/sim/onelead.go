package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// This file knows what an algorithm promises that has one leader, never two.

// leaseholder is a core whose leadership is in force for a time that it knows.
type leaseholder interface {
	Lease() (until time.Time, leads bool)
	Guard() time.Time
	Applied() (index, chain uint64)
	Voters() [][]election.ID
	Settled() bool
	Durable(records [][]byte) (term uint64)
}

// appendLog writes records off the loop.
func (w *world) appendLog(p *process, a *election.Action) {
	w.checks.saves(w, p, election.Token{})
	d := &p.disk
	d.saving, d.appends, d.replaces, d.nextRecords, d.began = true, true, a.Replace, slices.Clone(a.Records), p.clock.at(w.now)
	w.writes(p, w.now+w.rng.in(w.setup.Fsync)+d.slow)
}

// complete says that each two of a group reach each other: the leader has no other way
// to its voters.
func (w *world) complete(group []*process) bool {
	for i, a := range group {
		for _, b := range group[:i] {
			if !w.reach(a, b) {
				return false
			}
		}
	}
	return true
}

// majority says that those of a group who are able hold a majority of the voters, of
// both configurations while one changes. Who votes is what the member of the group knows
// that has taken in the most of the log: one that was away may still count by an older
// configuration, and cannot be elected by it, for its log is behind.
func (w *world) majority(group, able []*process) bool {
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

// voters are who votes, as the member of a group knows that has taken in the most.
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

// electable says that somebody of a group may lead, and votes: a newcomer that is still to
// learn the log has no way to vote before somebody leads.
func (w *world) electable(group []*process) bool {
	sets := voters(group)
	return slices.ContainsFunc(group, func(p *process) bool {
		return w.mayLead(p) && slices.ContainsFunc(sets, func(ids []election.ID) bool { return slices.Contains(ids, p.rank.ID) })
	})
}

// quorumAgrees is groupAgrees where a majority decides. A member whose disk hangs can
// take nothing up, and is not looked at; nor do the others know what it alone has taken in.
func (w *world) quorumAgrees(group []*process) (t election.Token, why string) {
	working := slices.DeleteFunc(slices.Clone(group), func(p *process) bool { return p.disk.hangs() || !p.machine.(leaseholder).Settled() })
	switch {
	case !w.majority(group, group), !w.electable(group):
		return t, leaderless(group)
	case !w.majority(group, working), !w.majority(working, working), !w.electable(working):
		return t, "" // nobody can be elected; who led before may go on
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

// leaderless gives "" when nobody of a group without a majority has a leader.
func leaderless(group []*process) string {
	for _, p := range group {
		if p.view.Defined() {
			return string(p.rank.ID) + " has " + p.view.String() + " for its leader, and no majority is there"
		}
	}
	return ""
}
