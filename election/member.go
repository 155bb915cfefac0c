package election

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
)

// Bounds of the member list, tombstones included. Every list within them fits into a state file
// and a message. An entry beyond them is refused.
const (
	MaxMembers   = 4096      // entries
	MaxListBytes = 512 << 10 // the sum of their sizes, see [Member.Size]
)

// entryBytes is the size of an entry besides its id and address.
const entryBytes = 32

// MaxVersion is the highest version of an entry. RemovalLead is how far a removal raises the
// version: above all that the member may do to its own entry before it learns of its removal,
// such as to move, or to leave and join again.
const (
	MaxVersion  = 1 << 62
	RemovalLead = 1 << 16
)

// Member is an entry of the member list. Each entry has its own version. Lists merge entry by
// entry: the higher version wins, and at equal versions a departure does. The list becomes the
// same everywhere once members can communicate.
type Member struct {
	Rank      `cbor:"r"`
	Address   string    `cbor:"a,omitempty"` // HOST:PORT
	Observer  bool      `cbor:"o,omitempty"` // follows and never leads
	Version   uint64    `cbor:"v,omitempty"` // 0: from a configuration
	Departure Departure `cbor:"g,omitempty"`
	Fixed     bool      `cbor:"f,omitempty"` // Address is from each operator's configuration, though Version is not 0
	New       bool      `cbor:"n,omitempty"` // a join has added it to the list, and no leader has received from it since; of a removed one: a leader removed it because it was absent
	Pinned    bool      `cbor:"p,omitempty"` // a user has set Priority: it holds over the process's own until the process starts again
	Number    uint64    `cbor:"u,omitempty"` // of a quorum: the member's number; 0: it has none yet
	Disk      uint64    `cbor:"d,omitempty"` // of a quorum: identifies the disk of a process that asks to join
}

// Departure is how a member left the list. Its entry stays as a tombstone.
type Departure uint8

// Departures.
const (
	Present Departure = iota
	Left              // it left on its own request and may join again
	Removed           // it was removed and is refused until it is added again
)

// Supersedes reports whether entry e replaces old. An entry from a configuration never replaces
// an entry: each operator has written a configuration.
func (e Member) Supersedes(old Member) bool {
	if e.Version == 0 {
		return false
	}
	return cmp.Or(
		cmp.Compare(e.Version, old.Version),
		cmp.Compare(e.Departure, old.Departure),
		cmp.Compare(old.isNew(), e.isNew()),
		cmp.Compare(e.commonAddress(), old.commonAddress()), // any rule will do that all members share
		cmp.Compare(e.rankWord(), old.rankWord()),
	) > 0
}

// commonAddress returns the address if it is the same for all members.
func (e Member) commonAddress() string {
	if e.Version == 0 || e.Fixed {
		return "" // each configuration has its own
	}
	return e.Address
}

// rankWord encodes the member's priority in a number.
func (e Member) rankWord() int64 {
	word := int64(e.Priority) << 2
	if e.Pinned {
		word++
	}
	return word
}

func (e Member) isNew() int {
	if e.New {
		return 1
	}
	return 0
}

// Eligibility returns whether the member is a candidate, only by its entry.
func (e Member) Eligibility() Eligibility {
	if e.Observer {
		return IneligibleObserver
	}
	return Eligible
}

// Size returns what the entry counts for in [MaxListBytes]: the bytes of its id and its address,
// and 32.
func (e Member) Size() int { return len(e.ID) + len(e.Address) + entryBytes }

// ListBytes returns what a list counts for in [MaxListBytes].
func ListBytes(list []Member) (n int) {
	for _, e := range list {
		n += e.Size()
	}
	return n
}

// Forgotten reports whether a member has never come, or left long ago: its entry leaves no
// tombstone.
func (e Member) Forgotten() bool { return e.New && e.Departure == Left }

// Digest returns a short sum of a list. Two members with different digests exchange their lists.
// A priority of 0 adds nothing, so a list without priorities has the digest of versions that had
// no priorities.
func Digest(list []Member) uint32 {
	b := make([]byte, 0, 32*len(list))
	for _, e := range list {
		b = append(binary.AppendUvarint(append(b, e.ID...), e.Version), byte(e.Departure))
		if e.Version > 0 {
			b = append(b, e.commonAddress()...)
			if word := e.rankWord() + 2*int64(e.isNew()); word != 0 {
				b = binary.AppendVarint(b, word)
			}
		}
		b = append(b, 0)
	}
	h := fnv.New32a()
	h.Write(b)
	return h.Sum32()
}

// Eligibility is why a member is not a candidate; empty when it is.
type Eligibility string

// Eligible, and the reasons why a member is not.
const (
	Eligible            Eligibility = ""
	IneligibleResigned  Eligibility = "resigned"    // it stepped down; until a later leadership of at least 2·T ends
	StandsNext          Eligibility = "stands-next" // resigned, and such a leadership is present: a candidate once that ends
	IneligibleWorking   Eligibility = "working"     // its work of an earlier leadership has not stopped yet
	IneligibleUnsaved   Eligibility = "unsaved"     // its disk refuses its state, or has not answered for T
	IneligibleObserver  Eligibility = "observer"    // it was configured to follow only
	IneligibleUnhealthy Eligibility = "unhealthy"   // its health check has failed
	LastResort          Eligibility = "last-resort" // unhealthy, and no healthy member leads: a candidate only among such members
	IneligibleClosing   Eligibility = "closing"     // its process is about to end
	IneligibleGone      Eligibility = "gone"        // it has left or was removed
	IneligibleJoining   Eligibility = "joining"     // it has just joined and awaits the leader
	IneligibleRefused   Eligibility = "refused"     // a live member of its list refuses its connections
	IneligibleUnfounded Eligibility = "unfounded"   // it has found no cluster yet, and may not create one
	IneligiblePaused    Eligibility = "paused"      // leadership stays with its holder until the pause ends
	IneligibleFew       Eligibility = "few-members" // it receives from fewer members than it needs to lead
)

// SaysEligible encodes [Eligible] where an empty value means that nothing is known: in a
// [MemberReport], and in an algorithm's own messages.
const SaysEligible Eligibility = "stands"

// Said encodes e, with [SaysEligible] for [Eligible].
func (e Eligibility) Said() Eligibility {
	if e == Eligible {
		return SaysEligible
	}
	return e
}

// Hears returns the eligibility after a report was received, which is empty from older versions:
// then e stays.
func (e Eligibility) Hears(said Eligibility) Eligibility {
	switch said {
	case "":
		return e
	case SaysEligible:
		return Eligible
	}
	return said
}
