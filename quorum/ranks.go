package quorum

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
)

// This file applies priorities that a user sets for a running member. They are in the log, and hold
// for the process that ran then; the next process has its own priority again.

// process returns the incarnation of a running member, as far as this member knows; 0: it does not
// run.
func (c *Core) process(id election.ID) uint64 {
	if id == c.cfg.Self.ID {
		return c.cfg.Incarnation
	}
	if p := c.peer(id); p != nil {
		return p.incarnation
	}
	return 0
}

// ranked reports whether the log gives a member that priority, and the same process still runs.
func (c *Core) ranked(s *seat, priority int) bool {
	process := c.process(s.ID)
	return s.Process != 0 && s.Priority == priority && (process == 0 || s.Process >= process)
}

// rerank applies the priorities of the log.
func (c *Core) rerank() {
	for i := range c.roster.Seats {
		s := &c.roster.Seats[i]
		if s.Process == 0 || c.process(s.ID) != s.Process {
			continue
		}
		rank := &c.cfg.Self
		if p := c.peer(s.ID); p != nil {
			rank = &p.rank
		}
		if rank.Priority != s.Priority {
			rank.Priority = s.Priority
			c.note("ranks", s.ID, c.view, fmt.Sprintf("by %d now", s.Priority))
		}
	}
}
