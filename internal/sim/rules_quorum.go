package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// This file checks the rules of algorithms that never have two leaders.

// termChecker checks the leaderships of an algorithm that has a single leader per epoch.
type termChecker struct {
	*history
	epochs uint64 // the highest epoch that any member has led under
}

func (c *termChecker) begin(*scene) { c.epochs = 0 }

func (c *termChecker) tells(w *scene, p *process, a *election.Action) {
	if a.Kind == election.NotifyLost {
		return
	}
	t, mine := a.Token, a.Token.Leader.ID == p.rank.ID
	_, claimed := c.claims[t]
	switch {
	case mine && t.Epoch <= c.epochs:
		c.fail(w, p, invariant.OneEpochOnly, "it leads as %v, and epoch %d has had a leader", t, c.epochs)
	case mine && p.working:
		c.fail(w, p, invariant.Work, "it leads as %v", t)
	case mine && !w.mayLead(p):
		c.fail(w, p, invariant.Stands, "it leads as %v", t)
	case !mine && !claimed:
		c.fail(w, p, invariant.Claimed, "it follows %v, which no member has claimed", t)
	}
	if mine {
		c.epochs = t.Epoch
	}
}

// sends checks that a message names only a term that is on disk. Requests for votes, and answers
// before an election, are exceptions.
func (c *termChecker) sends(w *scene, p *process, m *election.Message) {
	if m.Kind == "pre-vote" || m.Kind == "pre-vote-answer" || m.Kind == "vote" {
		return
	}
	core, ok := p.machine.(leaseholder)
	if term := core.Durable(p.disk.log); ok && m.Token.Epoch > term {
		c.fail(w, p, invariant.Saved, "it sends a %s of epoch %d and its disk has %d", m.Kind, m.Token.Epoch, term)
	}
}

// keeps checks that the next process reads from the log what this one acts on.
func (c *termChecker) keeps(w *scene, p *process) {
	if core, ok := p.machine.(leaseholder); ok && !w.setup.NoDisk && !core.Keeps(p.disk.log) {
		c.fail(w, p, invariant.Kept, "it has written all, and its log of %d records holds something else", len(p.disk.log))
	}
}

// leaseChecker checks that no two leases are in force at the same time, by the world's clock,
// which no member has. It also checks that what was committed stays so.
type leaseChecker struct {
	*history
	chains map[uint64]uint64 // what the log holds up to each index
}

func (c *leaseChecker) begin(*scene) { clear(c.chains) }

// stepped checks the leases.
func (c *leaseChecker) stepped(w *scene, p *process) {
	core, ok := p.machine.(leaseholder)
	if !ok {
		return
	}
	s := &c.places[p.place]
	var guard time.Duration
	if until := core.Guard(); !until.IsZero() {
		guard = own(until)
	}
	if p.working || s.guardOf != p.life {
		guard = max(guard, s.guard) // the work has yet to learn that the lease was given up, or is of an earlier process
	}
	if guard != s.guard {
		s.guard, s.guardOf = guard, p.life
	}
	if c.holds(w, p) {
		for _, q := range w.procs {
			if q != p && c.holds(w, q) {
				c.fail(w, p, invariant.OneLease, "its lease is in force, and so is that of %s, for another %v", q.rank.ID, q.clock.when(c.places[q.place].guard)-w.now)
			}
		}
	}
	c.committed(w, p, core)
}

// holds reports whether a lease is in force in the world's time. The guard of a child process
// outlives an agent that crashed, but not a power failure of the host.
func (c *leaseChecker) holds(w *scene, p *process) bool {
	return p.place < len(c.places) && c.places[p.place].guard > 0 && p.clock.at(w.now) < c.places[p.place].guard
}

// ends handles the end of a process; if the host ends, its lease does. If a refused connection
// proves a leader's death, no member waits for what outlives the process.
func (c *leaseChecker) ends(w *scene, p *process, as scenario.Condition) {
	if (as == scenario.Off || w.setup.Option == "refused") && p.place < len(c.places) {
		c.places[p.place].guard = 0
	}
}

// orphaned handles that nothing is left of the work of a process that ended before that life.
func (c *leaseChecker) orphaned(place int, life uint64) {
	if s := &c.places[place]; s.guardOf < life {
		s.guard = 0
	}
}

// committed checks that all members have applied the same at each index, forever.
func (c *leaseChecker) committed(w *scene, p *process, core leaseholder) {
	index, chain := core.Applied()
	s := &c.places[p.place]
	if s.applied == index && s.chain == chain {
		return
	}
	s.applied, s.chain = index, chain
	if c.chains == nil {
		c.chains = map[uint64]uint64{}
	}
	if of, known := c.chains[index]; !known {
		c.chains[index] = chain
	} else if of != chain {
		c.fail(w, p, invariant.Committed, "what it has applied up to %d is not what another member has", index)
	}
}

// tells checks a member that begins to lead.
func (c *leaseChecker) tells(w *scene, p *process, a *election.Action) {
	t := a.Token
	if a.Kind == election.NotifyLost || t.Leader.ID != p.rank.ID {
		return
	}
	core := p.machine.(leaseholder)
	if until, leads := core.Lease(); !leads || until.Sub(epochOfTime) <= p.clock.at(w.now) {
		c.fail(w, p, invariant.OneLease, "it leads as %v without a lease", t)
	}
	index := core.Committed() // what it has proposed itself since its election, it may be about to apply
	for at := range c.chains {
		if at > index {
			c.fail(w, p, invariant.Committed, "it leads as %v knowing the log up to %d, and %d was committed", t, index, at)
		}
	}
}

// haltChecker checks that a member ends itself only for a reason that holds: it was removed, or
// another disk has claimed its number.
type haltChecker struct {
	*history
	latest uint64                     // the highest index that any member has applied
	list   []election.Member          // the members then
	disks  map[uint64]map[uint64]bool // that have claimed each number
}

func (c *haltChecker) begin(*scene) {
	c.latest, c.list = 0, nil
	c.disks = map[uint64]map[uint64]bool{}
}

// stepped records what the member has applied, and its disk.
func (c *haltChecker) stepped(_ *scene, p *process) {
	core := p.machine.(leaseholder)
	if index, _ := core.Applied(); index > c.latest {
		c.latest, c.list = index, p.machine.List()
	}
	own, _ := p.machine.Entry(p.rank.ID)
	if own.Number == 0 || own.Disk == 0 {
		return
	}
	if c.disks[own.Number] == nil {
		c.disks[own.Number] = map[uint64]bool{}
	}
	c.disks[own.Number][own.Disk] = true
}

func (c *haltChecker) halts(w *scene, p *process, err error) {
	own, _ := p.machine.Entry(p.rank.ID)
	isThis := func(e election.Member) bool { return e.ID == own.ID && e.Number == own.Number }
	switch {
	case own.Departure == election.Removed: // according to its own log
	case errors.Is(err, election.ErrRemoved):
		if own.Number != 0 && slices.ContainsFunc(c.list, isThis) {
			c.fail(w, p, invariant.Halts, "it is a member, and ends: %v", err)
		}
	case len(c.disks[own.Number]) < 2:
		c.fail(w, p, invariant.Halts, "no other disk has claimed its number, and it ends: %v", err)
	}
}
