package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/sim/invariant"
	"github.com/batuta-dev/batuta/sim/scenario"
)

// This file checks what an algorithm promises that has one leader, never two, in the
// world's own time, which no member knows.

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
	w.checks.saves(w, p)
	d := &p.disk
	d.saving, d.appends, d.replaces, d.nextRecords, d.began = true, true, a.Replace, slices.Clone(a.Records), p.clock.at(w.now)
	w.writes(p, w.now+w.rng.in(w.setup.Fsync)+d.slow)
}

// leases looks at the leases after a step of p.
func (c *checks) leases(w *world, p *process) {
	core, ok := p.machine.(leaseholder)
	if !ok {
		return
	}
	s := &c.places[p.place]
	var guard time.Duration
	if until := core.Guard(); !until.IsZero() {
		guard = until.Sub(epochOfTime)
	}
	if p.working {
		guard = max(guard, s.guard) // of a lease that is given up the work knows nothing yet
	}
	s.guard = guard
	if c.holds(w, p) {
		for _, q := range w.procs {
			if q != p && c.holds(w, q) {
				c.fail(w, p, invariant.OneLease, "its lease is in force, and so is that of %s, for another %v", q.rank.ID, q.clock.when(c.places[q.place].guard)-w.now)
			}
		}
	}
	c.committed(w, p, core)
}

// durable: nothing is said of a term that is not on disk, but whether one would vote.
func (c *checks) durable(w *world, p *process, m *election.Message) {
	if m.Kind == "pre-vote" || m.Kind == "pre-vote-answer" {
		return
	}
	core, ok := p.machine.(leaseholder)
	if term := core.Durable(p.disk.log); ok && m.Token.Epoch > term {
		c.fail(w, p, invariant.Saved, "it sends a %s of epoch %d and its disk has %d", m.Kind, m.Token.Epoch, term)
	}
}

// holds says that a lease is in force in the world's time. The guard of a child outlives
// an agent that has crashed, not a host that has lost its power.
func (c *checks) holds(w *world, p *process) bool {
	return p.place < len(c.places) && c.places[p.place].guard > 0 && p.clock.at(w.now) < c.places[p.place].guard
}

// ended: a process is no more; with its host everything ends. Where a refused connection is
// taken for a leader's death, what outlives the process is not waited for.
func (c *checks) ended(w *world, p *process, as scenario.Condition) {
	if (as == scenario.Off || w.setup.Option == "refused") && p.place < len(c.places) {
		c.places[p.place].guard = 0
	}
}

// committed: what one member has applied is what all have at that place, for ever.
func (c *checks) committed(w *world, p *process, core leaseholder) {
	index, chain := core.Applied()
	if c.chains == nil {
		c.chains = map[uint64]uint64{}
	}
	if of, known := c.chains[index]; known && of != chain {
		c.fail(w, p, invariant.Committed, "what it has applied up to %d is not what another member has", index)
	}
	c.chains[index] = chain
}

// inForce looks at a leadership that a member tells of.
func (c *checks) inForce(w *world, p *process, t election.Token) {
	s := &c.places[p.place]
	mine := t.Leader.ID == p.rank.ID
	_, claimed := c.claims[t]
	core := p.machine.(leaseholder)
	switch {
	case !t.Defined():
		c.fail(w, p, invariant.Claimed, "it tells of a leader without a name")
	case p.view.Defined():
		c.fail(w, p, invariant.Lost, "it tells of %v and has not lost %v", t, p.view)
	case s.held.Above(t):
		c.fail(w, p, invariant.Monotone, "it held %v and now tells of %v", s.held, t)
	case mine && t.Epoch <= c.epochs:
		c.fail(w, p, invariant.OneEpochOnly, "it leads as %v, and epoch %d has had a leader", t, c.epochs)
	case mine && p.working:
		c.fail(w, p, invariant.Work, "it leads as %v", t)
	case mine && !w.mayLead(p):
		c.fail(w, p, invariant.Stands, "it leads as %v", t)
	case !mine && !claimed:
		c.fail(w, p, invariant.Claimed, "it follows %v, which nobody has claimed", t)
	}
	s.held, s.since, s.told = t, w.now, true
	if !mine {
		return
	}
	if until, leads := core.Lease(); !leads || until.Sub(epochOfTime) <= p.clock.at(w.now) {
		c.fail(w, p, invariant.OneLease, "it leads as %v without a lease", t)
	}
	index, _ := core.Applied()
	for at := range c.chains {
		if at > index {
			c.fail(w, p, invariant.Committed, "it leads as %v knowing the log up to %d, and %d was committed", t, index, at)
		}
	}
	c.changes++
	c.claims[t], c.epochs = p.place, t.Epoch
	s.begun, s.own = w.now, t
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
func voters(group []*process) (sets [][]election.ID) {
	furthest := uint64(0)
	for _, p := range group {
		core := p.machine.(leaseholder)
		if index, _ := core.Applied(); index > furthest {
			furthest, sets = index, core.Voters()
		}
	}
	return sets
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
		if p != leader && better && p.stands() {
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
