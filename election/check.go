package election

import (
	"errors"
	"fmt"
	"slices"
)

// This file says which ids and entries are sound: of what a peer sends, and of what
// a disk gives back.

// ErrID says that an id could not be any member's.
var ErrID = errors.New("no id of a member")

// idError is an error about an id; its text stands alone.
type idError struct{ error }

func (e idError) Unwrap() []error { return []error{ErrID, e.error} }

// CheckIDs refuses ids that are not in canonical form; [None] is allowed. Its error
// wraps [ErrID].
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

// Check refuses an entry that could not stand in a member list. Its error wraps
// [ErrID] when that is because of the id.
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

// CheckList leaves entries out of a member list whose id does not print or whose
// address is not HOST:PORT: earlier versions let them in, and one such entry must not
// cut members off that hold it. It refuses a list with any other fault as a whole,
// by the error of [Member.Check]. It takes list over.
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
