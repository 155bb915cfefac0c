package sim

import (
	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// driverChecker checks that a Machine asks its driver only for what can be done.
type driverChecker struct{ *history }

func (c *driverChecker) saves(w *scene, p *process, _ election.Token) {
	if p.disk.saving {
		c.fail(w, p, invariant.Driver, "it saves while a save is outstanding")
	}
}

// reaches checks that a member dials only members that were added, and removed ones: a driver
// has no further addresses.
func (c *driverChecker) reaches(w *scene, p *process, slot int) {
	if w.roster && !p.peers[slot].known && !p.removed(w.procs[slot]) {
		c.fail(w, p, invariant.Driver, "it wants to reach %s, and has not told that it was added", w.procs[slot].rank.ID)
	}
}
