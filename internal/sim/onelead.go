package sim

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest/oath"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
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

// appendLog writes records outside of the loop.
func (w *world) appendLog(p *process, a *election.Action) {
	w.checks.saves(w, p, election.Token{})
	d := &p.disk
	d.saving, d.appends, d.replaces, d.nextRecords, d.began = true, true, a.Replace, slices.Clone(a.Records), p.clock.at(w.now)
	w.writes(p, w.now+w.rng.in(w.setup.Fsync)+d.slow)
}

// guard is the process next to a leader that attests its end. It outlives the leader's process.
type guard struct {
	oath.Witness
	place int    // of the leader
	life  uint64 // the life of that place after the leader's end
	sent  bool
}

// swear gives the guard of a leader its secret, and the leader the commitment.
func swear(w *world, p *process, t election.Token) {
	if p.guard = (guard{}); w.rng.one(8) {
		return // it has none
	}
	var secret []byte
	for range oath.Size / 8 {
		secret = binary.BigEndian.AppendUint64(secret, w.rng.pcg.Uint64())
	}
	p.guard.Takes(oath.Oath{Token: t, Secret: secret})
	p.guard.Works(true)
	core := p.machine.(interface{ Commits(secret []byte) []byte })
	w.step(p, election.Event{Kind: election.Sworn, Token: t, Proof: core.Commits(secret)})
}

// orphan makes the guard of a crashed leader end the work. The guard may have been killed too,
// or may take longer than the lease.
func orphan(w *world, p *process) {
	g := p.guard
	if p.guard = (guard{}); !g.Swore() || w.rng.one(6) {
		return
	}
	g.place, g.life = p.place, p.life
	g.Died()
	w.guards = append(w.guards, g)
	attestNow(w, len(w.guards)-1)
	longest := w.setup.Timing.Heartbeat / 4
	if w.rng.one(4) {
		longest = 3 * w.setup.Timing.T()
	}
	w.queue.push(occurrence{at: w.now + w.rng.in(scenario.Span{Max: longest}), kind: workGone, place: int32(len(w.guards) - 1)})
}

// guardSeesEnd handles that nothing is left of a crashed leader's work.
func guardSeesEnd(w *world, i int32) {
	g := &w.guards[i]
	if w.procs[g.place].life == g.life {
		w.checks.places[g.place].guard = 0
	}
	g.Works(false)
	attestNow(w, int(i))
}

// attestNow sends the secret to all members once there is something to attest. It may arrive
// late, twice or not at all.
func attestNow(w *world, i int) {
	g := &w.guards[i]
	if _, ok := g.Attests(); !ok || g.sent {
		return
	}
	g.sent = true
	for _, q := range w.procs {
		for copies := [...]int{0, 1, 1, 1, 1, 1, 1, 2}[w.rng.below(8)]; copies > 0 && w.reach(w.procs[g.place], q); copies-- {
			late := w.rng.in(w.setup.Latency)
			if w.rng.one(8) {
				late = w.rng.in(scenario.Span{Max: 4 * w.setup.Timing.T()})
			}
			w.queue.push(occurrence{at: w.now + late, kind: attested, place: int32(i), life: uint64(q.place)})
		}
	}
}

// handProof delivers a secret to a process.
func handProof(w *world, o *occurrence) {
	switch p := w.procs[o.life]; p.condition {
	case scenario.Alive:
		oath, _ := w.guards[o.place].Attests()
		w.step(p, election.Event{Kind: election.Attested, Proof: oath.Secret})
	case scenario.Frozen: // it comes after the thaw
		late := *o
		late.at = w.now + w.setup.Timing.Heartbeat
		w.queue.push(late)
	}
}

// complete reports whether each two of a group reach each other: the leader has no indirect way
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

// majority reports whether able holds a majority of the voters, in both configurations during a
// change. The voters are those of the group's most advanced log. A returning member may still
// count by an older configuration, but its log is behind, so it cannot be elected by that.
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
func (w *world) electable(group []*process) bool {
	sets := voters(group)
	return slices.ContainsFunc(group, func(p *process) bool {
		return w.mayLead(p) && slices.ContainsFunc(sets, func(ids []election.ID) bool { return slices.Contains(ids, p.rank.ID) })
	})
}

// quorumAgrees is groupAgrees where a majority decides. A member with a hung disk cannot take
// anything up and is skipped; what only it has received does not count.
func (w *world) quorumAgrees(group []*process) (t election.Token, why string) {
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
