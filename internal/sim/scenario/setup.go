package scenario

import (
	"cmp"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Maker returns the source of new algorithms of that name, or an error that lists the names.
// option is the algorithm's own ("all" or "descending" for Bully), empty for its default.
type Maker func(algorithm, option string) (func() election.Algorithm, error)

// Span is a range of times from which values are drawn evenly, both ends included.
type Span struct{ Min, Max time.Duration }

// Listed is a member's configuration: the members on its list, without itself.
type Listed struct {
	At      election.ID
	Members []election.ID
}

// Has reports whether the configuration of the member at contains id.
func (s *Setup) Has(at, id election.ID) bool {
	for _, l := range s.Lists {
		if l.At == at {
			return id == at || slices.Contains(l.Members, id)
		}
	}
	return true
}

// LinkLatency is how long a message takes over a link.
type LinkLatency struct {
	Link
	Span
}

// Defaults of [Setup].
var (
	defaultLatency = Span{time.Millisecond, 5 * time.Millisecond}
	defaultFsync   = Span{time.Millisecond, 4 * time.Millisecond}
)

// Setup is a cluster to simulate. The zero value of each optional field works.
type Setup struct {
	Members       []election.Rank // required
	Algorithm     string          // required; passed to the [Maker]
	Option        string          // the algorithm's own option
	Timing        election.Timing // defaults: see [election.Timing]
	NoPreempt     bool            // a higher-ranked member that returns follows the present leader
	NoDetector    bool            // only the script suspects members; no links, no heartbeats
	Seed          uint64          // of every random draw: latencies, jitter, what a crash tears
	Latency       Span            // in a single direction; default 1 ms to 5 ms
	Links         []LinkLatency   // links with a latency of their own
	Fsync         Span            // of a disk; default 1 ms to 4 ms
	NoDisk        bool            // state is lost with the process
	CompactAfter  int             // records after which a quorum's log is compacted; 0: as in production
	LateWrites    bool            // a write that a disk refused may be there after the end of the process
	Work          bool            // leaders work, and take Drain to stop
	Drain         time.Duration   // default 0
	Absent        []election.ID   // not started at first
	Newcomers     []election.ID   // on no member's list and not started at first: they join
	Observers     []election.ID   // they follow and never lead
	Lists         []Listed        // members with a configuration of their own; default: it has every member
	Newcomer      bool            // a member that joins creates no cluster
	Expect        int             // no member leads before so many receive from each
	MinMembers    int             // a member leads only while it receives from so many, itself included
	ReapAfter     time.Duration   // how long a member is away before a leader removes it; 0: forever
	LeadUnhealthy bool            // an unhealthy member leads when no healthy member does
	Settled       bool            // all start as followers of the highest member, present or not
	Manual        bool            // nothing happens by itself: each delivery and each timer is a step
}

// Filled returns s with defaults in place of zeros.
func (s Setup) Filled() Setup {
	s.Timing = s.Timing.WithDefaults()
	s.Latency = cmp.Or(s.Latency, defaultLatency)
	s.Fsync = cmp.Or(s.Fsync, defaultFsync)
	return s
}

// OneLeader reports whether the algorithm promises never to have two leaders. The condition is
// that disks keep their writes and clocks differ no further than it tolerates.
func (s *Setup) OneLeader() bool { return s.Algorithm == "quorum" }

// SettledLeader returns the highest member that may lead from the start; zero: there is none.
func (s *Setup) SettledLeader() (highest election.Rank) {
	for _, r := range s.Members {
		if !slices.Contains(s.Newcomers, r.ID) && !slices.Contains(s.Observers, r.ID) {
			highest = r
		}
	}
	return highest
}

// part is the share of its longest possible waits that an algorithm needed, in the slowest of
// 100,000 random schedules. Time that does not depend on the algorithm is not counted.
var part = map[string]float64{"bully": 0.14, "ring": 0.21, "chang-roberts": 0.21}

// Bound returns how long every connected group of live members may take to agree after the last
// fault: twice the longest time measured for the algorithm. An algorithm that was not measured
// may take its longest possible waits.
func (s Setup) Bound() time.Duration {
	fixed, waits := s.takes()
	if p, ok := part[s.Algorithm]; ok {
		waits = time.Duration(p * float64(waits))
	}
	return 2 * (fixed + waits)
}

// takes returns the times that may add up. Fixed times: the longest backoff (1 s), the pause
// before a failing disk is tried again (1 s), two drains (of a superseded leader, and of a
// leader that hands over to it), saves, and twice the silence tolerated beyond T (of the leader,
// and of a draining member). Times that depend on the timing: dials, the silence after which a
// leader is suspected, and the confirmation that it is alive. Three elections of the longest
// wait (2·T + 4·t_max for each higher member): the first may be lost to earlier messages that
// are still on their way, the second to a preempting hand-over. The return of a member that was
// not a candidate (2·T).
func (s Setup) takes() (fixed, waits time.Duration) {
	s = s.Filled()
	t, n := s.Timing, time.Duration(len(s.Members))
	notice := 2*t.DialTime() + t.T() + 4*t.TMax
	contest := t.T() + t.DialTime() + 2*t.T() + 4*t.TMax*n
	patience := 2 * (t.Bears() - t.T())
	return 2*time.Second + 2*s.Drain + 3*s.Fsync.Max + patience, notice + 3*contest + 2*t.T() + 2*t.Heartbeat
}

// Hold returns how long an agreement must last to count: longer than the detector needs to
// refute it. The last heartbeat may have come a heartbeat late, and the silence of an isolated
// leader is tolerated for a while. A member that misses the leader dials and asks the rest. It
// asks again, over existing links, if the confirmation that it gets is as old.
func (s Setup) Hold() time.Duration {
	t := s.Filled().Timing
	return t.Heartbeat + t.Bears() + t.DialTime() + 2*t.TMax + 2*t.TMax
}
