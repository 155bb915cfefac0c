package batuta

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// duplicateID notes that others refuse this member because its id is in use.
type duplicateID struct{ since, last time.Time }

// sameID ends the node when another process, at holder, has its id, not only seems to
// have it for the moment that the others need to see an earlier one gone. Where holder is
// empty the other has started later, has this member's place, and nobody hears this one.
func (n *Node) sameID(holder string, by ID) {
	now := time.Now()
	if now.Sub(n.duplicate.last) > 2*n.timeout+duplicatePause {
		n.duplicate.since = now
	}
	n.duplicate.last = now
	if now.Sub(n.duplicate.since) <= 2*n.timeout {
		return
	}
	where := "the process at " + election.Shown(holder)
	if holder == "" {
		where = "a process that has started later"
	}
	n.fail(config("id %s is in use by %s, as member %s says: give each process its own id", n.id, where, by))
}

// duplicatePause is longer than a Machine waits between two dials.
const duplicatePause = 2 * time.Second
