package election

// MaxConnections is how many connections may be open between two members. Beyond that, the
// oldest that is not used ends at once.
const MaxConnections = 4

// Connection is a connection between two members, as either of them sees it.
type Connection struct {
	Dialed bool   // by this member, not by its peer
	Order  uint64 // position in the order in which the connections to the peer opened here
}

// Over reports whether c is used rather than other, between self and peer. Both ends choose the
// same connection, so their messages keep their order: the newest that the higher id has dialed,
// or else the newest. Unused connections end after [Timing.IdleTime] without a message; until
// then they are read.
func (c Connection) Over(other Connection, self, peer ID) bool {
	if c.Dialed != other.Dialed {
		return c.Dialed == (self.Compare(peer) > 0)
	}
	return c.Order > other.Order
}
