package batuta

import (
	"github.com/batuta-dev/batuta/election"
)

// Peer is a member as a person names it: in [Config] and to [Node.AddMember].
type Peer struct {
	ID       ID     // a number, an IP address, a UUID or a name; see [election.ParseID]
	Addr     string // HOST:PORT where it listens
	Priority int    // ranks before the id, until the member publishes its own; default 0
}

// ID names a member. Ids of one kind (numbers, IP addresses, UUIDs, names) have an
// order, and all ids of a cluster are of one kind: the member with the highest leads,
// of those with the highest priority.
type ID = election.ID

// Rank is what members are elected by: the priority, then the id.
type Rank = election.Rank

// Token names a leadership: the leader, and its epoch. Tokens rise from one
// leadership to the next; [Token.String] is EPOCH:ID.
type Token = election.Token

// Algorithm is how members elect. Packages election/bully, election/ring and
// quorum have them; package election documents how to write an algorithm.
type Algorithm = election.Algorithm

// Record is a thing that a member did, and why; see [Node.Trace].
type Record = election.Record

// Cause is why a leadership has ended.
type Cause = election.Cause

// Causes.
const (
	CauseCrashed    = election.CauseCrashed    // the leader's process is gone
	CauseSilent     = election.CauseSilent     // nothing was received from it, or it did not acknowledge, for T
	CauseResigned   = election.CauseResigned   // it stepped down or handed over
	CauseRemoved    = election.CauseRemoved    // it is no member any more
	CauseStalled    = election.CauseStalled    // this process was stopped for longer than T
	CauseSuperseded = election.CauseSuperseded // a higher token is known
	CauseStopped    = election.CauseStopped    // this member is closing
)

// MemberState is what a member is known to be.
type MemberState = election.MemberState

// States of a member.
const (
	StateUnknown     = election.StateUnknown     // nothing is known yet
	StateUp          = election.StateUp          // received from within T
	StateUnreachable = election.StateUnreachable // silent for T; may live
	StateDown        = election.StateDown        // its process is gone
	StateAdded       = election.StateAdded       // has come onto the list
	StateRemoved     = election.StateRemoved     // has left the list
)
