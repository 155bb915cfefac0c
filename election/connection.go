package election

// MaxConnections is how many may stand between two members. Of more the oldest that is
// not used ends at once.
const MaxConnections = 4

// Connection is one of those that stand between two members, as one of them sees it.
type Connection struct {
	Dialed bool   // by this member, not by the other
	Order  uint64 // of those between the two, in which they came to stand here
}

// Over reports whether c is used rather than other, between self and peer. Both ends
// see it alike, so that what they say to each other goes over one connection, in order:
// the newest that the higher id has dialed, or else the newest. The others end once they
// have been idle for [Timing.IdleTime]; until then what comes on them is read.
func (c Connection) Over(other Connection, self, peer ID) bool {
	if c.Dialed != other.Dialed {
		return c.Dialed == (self.Compare(peer) > 0)
	}
	return c.Order > other.Order
}
