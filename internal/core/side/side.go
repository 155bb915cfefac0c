// Package side compares the two sides of a partition after it has healed.
package side

import (
	"cmp"

	"github.com/batuta-dev/batuta/election"
)

// Side is the members that follow a leadership.
type Side struct {
	Leader election.Rank
	Size   int    // how many acknowledge the leader, itself included; 0: not known
	Young  bool   // the leadership has just begun, and Size is how many may come to acknowledge it
	Begun  uint64 // the epoch under which the leadership began
	Own    bool   // its leader itself compares, so that it is known to live
}

// Outweighs reports whether the leadership of s goes on where it meets that of o: more members
// follow it, or as many and its leader ranks higher. Without preemption the leadership that
// began first goes on instead. It is false while either size is not known. For any two sides it is
// true in at most one direction, so two leaders that compare the same figures agree.
//
// A follower compares its side with a leadership that has just begun in a different way. Its own
// leader may have crashed a moment ago, and the next leader then has the rest of the side.
// The follower stays only if less than half of its side may follow the new leadership.
func (s Side) Outweighs(o Side, preempt bool) bool {
	switch {
	case s.Size == 0 || o.Size == 0 || s.Young:
		return false
	case o.Young && !s.Own:
		return 2*o.Size < s.Size
	}
	older := 0
	if !preempt {
		older = cmp.Compare(o.Begun, s.Begun)
	}
	return cmp.Or(cmp.Compare(s.Size, o.Size), older, s.Leader.Compare(o.Leader)) > 0
}
