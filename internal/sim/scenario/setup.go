package scenario

import (
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Maker gives the source of fresh algorithms of that name, or an error that
// says which names there are. option is the algorithm's own ("all" or
// "descending" for Bully), empty for its default.
type Maker func(algorithm, option string) (func() election.Algorithm, error)

// Span is a range of times, drawn from evenly; both ends are included.
type Span struct{ Min, Max time.Duration }

// Listed is the configuration of a member: the members on its list, without itself.
type Listed struct {
	At      election.ID
	Members []election.ID
}

// Has reports whether the configuration of a member has another.
func (s *Setup) Has(at, id election.ID) bool {
	for _, l := range s.Lists {
		if l.At == at {
			return id == at || slices.Contains(l.Members, id)
		}
	}
	return true
}

// LinkLatency is how long a message takes on one link.
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
	Algorithm     string          // required; what the [Maker] is asked for
	Option        string          // the algorithm's own option
	Timing        election.Timing // defaults: see [election.Timing]
	NoPreempt     bool            // a higher-ranked member that returns follows the sitting leader
	NoDetector    bool            // suspicion comes from the script alone; no links, no beats
	Seed          uint64          // of every random draw: latencies, jitter, what a crash tears
	Latency       Span            // one way; default 1 ms to 5 ms
	Links         []LinkLatency   // what is otherwise on some links
	Fsync         Span            // of a disk; default 1 ms to 4 ms
	NoDisk        bool            // state dies with the process
	Work          bool            // leaders work, and take Drain to stop
	Drain         time.Duration   // default 0
	Absent        []election.ID   // not started at first
	Newcomers     []election.ID   // on nobody's list and not started at first: they join
	Observers     []election.ID   // they follow and never lead
	Lists         []Listed        // members whose configuration differs; default: it has every member
	Newcomer      bool            // who joins founds no cluster
	Expect        int             // nobody leads before so many hear each other
	MinMembers    int             // a member leads only while it receives so many, itself included
	ReapAfter     time.Duration   // a leader removes a member that has been away for so long; 0: none
	LeadUnhealthy bool            // an unhealthy member leads when nobody else does
	Settled       bool            // all start as settled followers of the highest one, present or not
	Manual        bool            // nothing happens by itself: each delivery and each timer is a step
}

// Filled is s with defaults for what is zero.
func (s Setup) Filled() Setup {
	if s.Timing.Heartbeat == 0 {
		s.Timing.Heartbeat = election.DefaultHeartbeat
	}
	if s.Timing.TMax == 0 {
		s.Timing.TMax = election.DefaultTMax
	}
	if s.Timing.TProcess == 0 {
		s.Timing.TProcess = election.DefaultTProcess
	}
	if s.Latency == (Span{}) {
		s.Latency = defaultLatency
	}
	if s.Fsync == (Span{}) {
		s.Fsync = defaultFsync
	}
	return s
}

// OneLeader says that the algorithm promises one leader, never two, on the condition
// that disks keep what they have written and clocks differ no further than it counts on.
func (s *Setup) OneLeader() bool { return s.Algorithm == "quorum" }

// SettledLeader is the highest member that may lead from the start; zero: there is none.
func (s *Setup) SettledLeader() (highest election.Rank) {
	for _, r := range s.Members {
		if !slices.Contains(s.Newcomers, r.ID) && !slices.Contains(s.Observers, r.ID) {
			highest = r
		}
	}
	return highest
}

// part is how much of what its waits may come to an algorithm has needed, beside what
// does not depend on it, in the slowest of 100,000 random schedules.
var part = map[string]float64{"bully": 0.14, "ring": 0.21, "chang-roberts": 0.21}

// Bound is how long after the last fault every connected group of live members may
// take to agree: twice the longest that was seen of this algorithm. An algorithm of
// which nothing is known may take all that its waits may come to.
func (s Setup) Bound() time.Duration {
	fixed, waits := s.takes()
	if p, ok := part[s.Algorithm]; ok {
		waits = time.Duration(p * float64(waits))
	}
	return 2 * (fixed + waits)
}

// takes is what may come one after the other. Whatever the timing: the longest backoff
// (1 s), the pause before a failing disk is tried again (1 s), two drains (of who was
// superseded, and of who hands over to it),
// saves, and twice what is borne of silence beyond T (of the leader's, and of who drains).
// By the timing: dials, the silence after which a leader is suspected and its
// vouching, three contests of the longest wait (2·T + 4·t_max for each higher member; a
// first one may be lost to what is still on the way from before, the second to a
// preempting hand-over), and the return of a member that stepped aside (2·T).
func (s Setup) takes() (fixed, waits time.Duration) {
	s = s.Filled()
	t, n := s.Timing, time.Duration(len(s.Members))
	notice := 2*t.DialTime() + t.T() + 4*t.TMax
	contest := t.T() + t.DialTime() + 2*t.T() + 4*t.TMax*n
	patience := 2 * (t.Bears() - t.T())
	return 2*time.Second + 2*s.Drain + 3*s.Fsync.Max + patience, notice + 3*contest + 2*t.T() + 2*t.Heartbeat
}

// Hold is how long an agreement must stand to count: longer than the detector takes
// to find that it was none. The last beat may have come a heartbeat after the one
// that others go by; a leader that is cut off is silent for as long as is borne; who misses it asks
// the others, whom it dials first, and hears from one that vouches, or from none; and
// asks once more, over links that stand, when what that one heard is as old.
func (s Setup) Hold() time.Duration {
	t := s.Filled().Timing
	return t.Heartbeat + t.Bears() + t.DialTime() + 2*t.TMax + 2*t.TMax
}
