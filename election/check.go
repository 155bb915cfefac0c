package election

import (
	"errors"
	"fmt"
	"slices"
)

// This file checks ids and entries from peers and from disk.

// ErrID means that an id cannot be a member's.
var ErrID = errors.New("no id of a member")

// idError is an error about an id; its text is complete.
type idError struct{ error }

func (e idError) Unwrap() []error { return []error{ErrID, e.error} }

// CheckIDs refuses ids that are not in canonical form; [None] is allowed. Its error wraps [ErrID].
func CheckIDs(ids ...ID) error {
	for _, id := range ids {
		if id == None {
			continue
		}
		if canonical, err := ParseID(string(id)); err != nil {
			return idError{err}
		} else if canonical != id {
			return idError{fmt.Errorf("id %s is not in canonical form: it should be %s", id, canonical)}
		}
	}
	return nil
}

// Check refuses an entry that is invalid in a member list. If the id is the reason, its error
// wraps [ErrID].
func (e Member) Check() error {
	if e.ID == None {
		return idError{errors.New("member list: an entry without an id")}
	}
	if err := CheckIDs(e.ID); err != nil {
		return err
	}
	if e.Address != "" && CheckListen(e.Address) != nil || max(e.Version, e.Number, e.Disk) > MaxVersion || e.Departure > Removed {
		return fmt.Errorf("member list: %s with an address of %d bytes, version %d, departure %d", e.ID, len(e.Address), e.Version, e.Departure)
	}
	return nil
}

// CheckList removes entries from a member list if their id is not printable or their address is
// not HOST:PORT. Earlier versions admitted them, and such an entry must not disconnect members
// that hold it. CheckList refuses a list with any further fault as a whole, with the error of
// [Member.Check]. It may modify list.
func CheckList(list []Member) ([]Member, error) {
	list = slices.DeleteFunc(list, func(e Member) bool {
		_, err := ParseID(string(e.ID))
		return e.ID != None && err != nil || e.Address != "" && CheckListen(e.Address) != nil
	})
	for _, e := range list {
		if err := e.Check(); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// ErrFull means that an entry would exceed [MaxMembers] or [MaxListBytes].
var ErrFull = errors.New("the member list is full: at most 4096 entries and 512 KiB of ids and addresses, ids that a user removed included; give a new member a removed id (batuta members add), or use shorter ids and addresses, or another cluster")

// Why a join is refused for now, or until a user adds the member.
var (
	ErrTooManyJoins = errors.New("too many joins, try again")
	ErrWornOut      = fmt.Errorf("this member has come, gone or moved %d times: it is refused until it is added again", RemovalLead)
)

// Why a connection is refused.
var (
	ErrNotMember      = errors.New("not a member of this cluster")
	ErrJoining        = errors.New("this process joins a cluster itself, and has received no member of it yet: try again")
	ErrSameID         = errors.New("this id is in use by another process")
	ErrOldIncarnation = errors.New("a newer process has taken this id")
	ErrForeign        = errors.New("another secret, cluster, algorithm, election, protocol version or times")
)

// Why a transfer is refused.
var (
	ErrNotLeading = errors.New("not the leader: ask the member that leads")
	ErrTooFew     = errors.New("it would leave fewer live voters than a majority")
	ErrNoMajority = errors.New("no member leads that could change the members: try again once one leads, for which more than half of the voters must reach each other")
	ErrUnfit      = errors.New("cannot become the leader")
)

// Why a membership change is refused.
var (
	ErrRemoved   = errors.New("this member was removed from the cluster: it is refused until it is added again")
	ErrMixedKind = errors.New("all ids of a cluster must be of one kind")
)
