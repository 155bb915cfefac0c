// Package epoch has the epochs of a member: the highest that it has seen, what its disk
// has, and whether the disk can be relied on. It is a part of the best-effort core.
//
// The rule is that of docs/sources.md, "Epochs": a candidate takes the epoch above all that
// it has seen, and a member sends an epoch only when it is on its disk. So no member leads
// twice in the same epoch, not even after a restart.
//
// The package assumes that a write which the disk has confirmed survives, and that a write
// which has failed or hangs may or may not be there later. It promises that [Disk.Write] never
// goes below what is on disk, and that [Seen.Next] is above all that was seen, except for a
// claim of this member that it has never sent: see [Disk.Drop].
//
// It has no clock and writes nothing: its owner passes the time, writes what it is given, and
// reports how the write has ended.
package epoch

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Members may raise the epoch by maxLeap within leapEvery. At that pace a member that sends
// false epochs uses all of them up in two centuries.
const (
	maxLeap   = 1 << 32
	leapEvery = time.Hour
)

// Seen is the epochs that a member has seen. A copy is independent.
type Seen struct {
	highest uint64
	held    uint64 // the highest under which any member has led or followed
	asked   uint64 // the highest when the present contest began, or all were last asked

	base   uint64 // the highest at baseAt: see Limit
	baseAt time.Time
}

// NewSeen begins with what the disk has.
func NewSeen(saved election.Token) Seen { return Seen{highest: saved.Epoch} }

// See notes an epoch.
func (s *Seen) See(epoch uint64) { s.highest = max(s.highest, epoch) }

// Receive notes what a message has: the epoch under which its sender leads or follows, and
// the highest that the sender has seen. The second may be of a claim that was given up.
func (s *Seen) Receive(held, highest uint64) {
	s.highest = max(s.highest, held, highest)
	s.held = max(s.held, held)
}

// Highest returns the highest epoch.
func (s *Seen) Highest() uint64 { return s.highest }

// Held returns the highest epoch under which a sender has led or followed.
func (s *Seen) Held() uint64 { return s.held }

// UsedUp reports whether there is no higher epoch to claim.
func (s *Seen) UsedUp() bool { return s.highest >= election.MaxEpoch }

// Limit returns the highest epoch that is believed now: maxLeap above the highest at the
// beginning of the hour.
func (s *Seen) Limit(now time.Time) uint64 {
	if now.Sub(s.baseAt) >= leapEvery {
		s.base, s.baseAt = s.highest, now
	}
	return min(election.MaxEpoch, s.base+maxLeap)
}

// Ask notes that a contest begins, or that all members have been asked which leads.
func (s *Seen) Ask() { s.asked = s.highest }

// Asked returns the highest epoch at the last [Seen.Ask].
func (s *Seen) Asked() uint64 { return s.asked }

// Contested reports whether a higher epoch was seen since the last [Seen.Ask]: its claim may
// have been won.
func (s *Seen) Contested() bool { return s.highest > s.asked }

// Next returns the leadership that a claim of self begins, above view, the last that self has
// known. That is the next epoch, or the epoch of an earlier claim that was dropped and
// has reached the disk since, if no member holds one as high.
func (s *Seen) Next(self election.Rank, view election.Token, disk *Disk) election.Token {
	if d := disk.dropped; d.Defined() && d == disk.token && d.Leader == self && d.Epoch > max(s.held, view.Epoch) {
		return d
	}
	return election.Token{Epoch: s.highest + 1, Leader: self}
}

// MayRaise reports whether a leader may raise its epoch: there is a next one, and the disk can be
// relied on to take it.
func (s *Seen) MayRaise(disk *Disk) bool { return !disk.Unfit() && !s.UsedUp() }
