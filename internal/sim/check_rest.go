package sim

import (
	"time"

	"github.com/batuta-dev/batuta/internal/sim/invariant"
)

// restChecker checks that a cluster comes to rest.
type restChecker struct {
	*history
	lastAt time.Duration
	same   int // occurrences at lastAt
}

func (c *restChecker) begin(*scene) { c.lastAt, c.same = 0, 0 }

// instant counts the events at the same instant.
func (c *restChecker) instant(w *scene, at time.Duration) {
	if at != c.lastAt {
		c.lastAt, c.same = at, 0
		return
	}
	if c.same++; c.same > 1000+100*c.n*c.n {
		c.fail(w, w.procs[0], invariant.Rest, "more than %d events at one instant", c.same)
	}
}
