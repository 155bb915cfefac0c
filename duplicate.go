package batuta

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// duplicateID notes that others refuse this member because its id is in use.
type duplicateID struct{ since, last time.Time }

// sameID ends the node when another process, at holder, has its id, not only seems to
// have it for the moment that the others need to see an earlier one gone.
func (n *Node) sameID(holder string, by ID) {
	now := time.Now()
	if now.Sub(n.duplicate.last) > 2*n.timeout+duplicatePause {
		n.duplicate.since = now
	}
	n.duplicate.last = now
	if now.Sub(n.duplicate.since) > 2*n.timeout {
		n.fail(config("id %s is in use by the process at %s, as member %s says: give each process its own id", n.id, election.Shown(holder), by))
	}
}

// duplicatePause is longer than a Machine waits between two dials.
const duplicatePause = 2 * time.Second
