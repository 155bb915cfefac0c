package machine

import (
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// Fits reports whether the list has room for e, in the place of an entry with the
// same id if there is one. An entry that is no larger than the one before fits.
func (m *Machine) Fits(e election.Member) bool {
	old, ok := m.Entry(e.ID)
	switch {
	case ok && e.Size() <= old.Size():
		return true
	case !ok && len(m.list) >= election.MaxMembers:
		return false
	case ok:
		return election.ListBytes(m.list)-old.Size()+e.Size() <= election.MaxListBytes
	}
	return election.ListBytes(m.list)+e.Size() <= election.MaxListBytes
}

// bounded leaves out of a list what goes beyond its bounds, the highest ids first;
// what keep names stays. A disk may remember more than a list may hold: an earlier
// version had no bound in bytes.
func bounded(list []election.Member, keep func(election.ID) bool) []election.Member {
	count, size := len(list), election.ListBytes(list)
	for i := len(list) - 1; i >= 0 && (count > election.MaxMembers || size > election.MaxListBytes); i-- {
		if !keep(list[i].ID) {
			count, size = count-1, size-list[i].Size()
			list = slices.Delete(list, i, i+1)
		}
	}
	return list
}
