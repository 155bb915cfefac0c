package election

import (
	"errors"
	"slices"
)

// Bounds of the member list, tombstones included. Every list within them fits
// into a state file and travels; an entry that would go beyond is refused.
const (
	MaxMembers   = 4096      // entries
	MaxListBytes = 512 << 10 // the sum of their sizes, see [Member.Size]
)

// entryBytes is what an entry takes beside its id and its address.
const entryBytes = 32

// ErrFull says that an entry would go beyond [MaxMembers] or [MaxListBytes].
var ErrFull = errors.New("the member list is full: at most 4096 entries and 512 KiB of ids and addresses, departed members included; use shorter ids and addresses, or another cluster")

// Size is what the entry counts for in [MaxListBytes]: the bytes of its id and its
// address, and 32.
func (e Member) Size() int { return len(e.ID) + len(e.Address) + entryBytes }

// Fits reports whether the list has room for e, in the place of an entry with the
// same id if there is one. An entry that is no larger than the one before fits.
func (m *Machine) Fits(e Member) bool {
	old, ok := m.Entry(e.ID)
	switch {
	case ok && e.Size() <= old.Size():
		return true
	case !ok && len(m.list) >= MaxMembers:
		return false
	case ok:
		return listBytes(m.list)-old.Size()+e.Size() <= MaxListBytes
	}
	return listBytes(m.list)+e.Size() <= MaxListBytes
}

func listBytes(list []Member) (n int) {
	for _, e := range list {
		n += e.Size()
	}
	return n
}

// bounded leaves out of a list what goes beyond its bounds, the highest ids first;
// what keep names stays. A disk may remember more than a list may hold: an earlier
// version had no bound in bytes.
func bounded(list []Member, keep func(ID) bool) []Member {
	count, size := len(list), listBytes(list)
	for i := len(list) - 1; i >= 0 && (count > MaxMembers || size > MaxListBytes); i-- {
		if !keep(list[i].ID) {
			count, size = count-1, size-list[i].Size()
			list = slices.Delete(list, i, i+1)
		}
	}
	return list
}
