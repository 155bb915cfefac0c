package quorum

import (
	"fmt"

	"github.com/batuta-dev/batuta/election"
)

// This file has every member rank another by what a user has said. That is in the log,
// and holds for the process that ran then: by the next one's own word it ranks anew.

// process names the process of a member that runs, as far as is known here; 0: it is not.
func (c *Core) process(id election.ID) uint64 {
	if id == c.cfg.Self.ID {
		return c.cfg.Incarnation
	}
	if p := c.peer(id); p != nil {
		return p.incarnation
	}
	return 0
}

// ranked reports whether a member has that priority by the log, and still runs as it did.
func (c *Core) ranked(s *seat, priority int) bool {
	process := c.process(s.ID)
	return s.Process != 0 && s.Priority == priority && (process == 0 || s.Process >= process)
}

// rerank takes up what the log says of ranks.
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
