package election

import (
	"errors"
	"fmt"
)

// ErrFull means that an entry would exceed [MaxMembers] or [MaxListBytes].
var ErrFull = errors.New("the member list is full: at most 4096 entries and 512 KiB of ids and addresses, departed members included; use shorter ids and addresses, or another cluster")

// Why a join is refused for now, or until a user adds the member.
var (
	ErrTooManyJoins = errors.New("too many joins, try again")
	ErrWornOut      = fmt.Errorf("this member has come, gone or moved %d times: it is refused until it is added again", RemovalLead)
)

// Why a connection is refused.
var (
	ErrNotMember      = errors.New("not a member of this cluster")
	ErrSameID         = errors.New("this id is in use by another process")
	ErrOldIncarnation = errors.New("a newer process has taken this id")
	ErrForeign        = errors.New("another secret, cluster, algorithm, election, protocol version or times")
)

// Why a transfer is refused.
var (
	ErrNotLeading = errors.New("not the leader: ask the member that leads")
	ErrTooFew     = errors.New("it would leave fewer live voters than a majority")
	ErrNoMajority = errors.New("no member leads that could change the members: start voters until more than half of them reach each other")
	ErrUnfit      = errors.New("cannot become the leader")
)

// Why a membership change is refused.
var (
	ErrRemoved   = errors.New("this member was removed from the cluster: it is refused until it is added again")
	ErrMixedKind = errors.New("all ids of a cluster must be of one kind")
)
