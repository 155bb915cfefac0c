package machine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Config sets up a [Machine]. The zero value of each optional field works.
type Config struct {
	Self          election.Rank           // this member; required
	Election      string                  // what the contest is about; default "default"
	Address       string                  // HOST:PORT where members reach this member
	Observer      bool                    // this member follows and never leads
	Meta          map[string]string       // what this member publishes, sound by [election.CheckMeta]
	Members       []election.Member       // everyone, this member included or not
	Closed        bool                    // the list is fixed: no member joins that is not on it
	Joins         bool                    // members admit this member: it asks a member that does not know it
	Newcomer      bool                    // it founds no cluster: until it knows of a leadership it is no candidate
	Expect        int                     // nor does any before so many members receive each other; 0: no such rule, else Newcomer counts for nothing
	MinMembers    int                     // it leads only while it receives so many members, itself included; 0: no such rule
	Algorithm     election.Algorithm      // required; belongs only to this Machine
	Timing        election.Timing         // defaults: see [election.Timing]
	NoPreempt     bool                    // a higher-ranked member that returns follows the sitting leader
	ReapAfter     time.Duration           // a leader removes a member that has been away for so long: see [reaper.Reaper]; 0: none
	LeadUnhealthy bool                    // an unhealthy member leads if there was no leader for 2·T and no healthy member is in reach
	Incarnation   uint64                  // greater than that of any earlier process with this id
	State         election.State          // as last saved; zero at a first start
	Records       [][]byte                // as asked to be written by Append, oldest first; none at a first start; of a core of its own
	CompactAfter  int                     // records after which a core of its own compacts them; 0: as it does; for the lab
	Following     election.Token          // start as settled under this leadership, as if elected before; for the lab
	Seed          uint64                  // of the jitter
	NoDetector    bool                    // the driver itself reports PeerDown and PeerUp; no links, no heartbeats
	Trace         func(r election.Record) // receives what was done and why; may be nil
}

// Core is a member of an election as its driver sees it: the node of a service, and the lab. It is
// pure: no clock, goroutine, socket, file or lock, and not safe for concurrent use. [Machine] is a
// Core; an algorithm that cannot live inside it makes its own: see [CoreMaker].
type Core interface {
	// Step handles an event and returns what to do about it, in order. now never runs backwards.
	// The slice is valid until the next Step.
	Step(now time.Time, ev election.Event) []election.Action
	// Deadline is when to step it next, with a Woke event, if nothing happens before.
	// It is false when nothing is due.
	Deadline() (time.Time, bool)

	Self() election.Rank            // this member, as it ranks now
	Standing() election.Eligibility // why it is no candidate; [election.Eligible] when it is a candidate
	View() election.Token           // the leadership that holds for it; zero: none
	Held() election.Token           // the highest leadership that it has on disk
	Highest() uint64                // the highest epoch that it has seen anywhere

	Members() []MemberView                        // all members as this member sees them, lowest rank first
	List() []election.Member                      // the list of members, tombstones included; not to be changed
	Entry(id election.ID) (election.Member, bool) // id's place on that list
	Knows(id election.ID) bool                    // whether id is a member now
	Fits(e election.Member) bool                  // whether the list has room for e
	Vouch() (election.Token, time.Duration)       // the leadership that holds for it, and how long ago it received that leader

	AdmitChange(remove bool, id election.ID, force bool) error // whether the list may be changed now at this member, by [election.MemberAdded] or [election.MemberRemoved]
	AdmitTransfer(to election.ID) error                        // whether this member may now hand leadership over to that member, by [election.Transfer]

	Admit(now time.Time, peer election.Rank, incarnation uint64) error       // whether a peer that dials this member may
	AdmitAnswer(now time.Time, peer election.Rank, incarnation uint64) error // whether a peer that answers its dial may
	AdmitJoin(now time.Time, e election.Member, incarnation uint64) error    // whether a newcomer may join through it
}

// Leaser is a Core with leaderships that are leases: they are in force until a known time.
type Leaser interface {
	// Lease is until when this member's leadership is in force, if it leads.
	Lease() (until time.Time, leads bool)
	// Guard is until when work of its leaderships may run, also while that stops; zero: none may.
	Guard() time.Time
	// Earlier is the longest T under which a member may still hold something for an earlier leader;
	// 0: no longer than its own.
	Earlier() time.Duration
}

// CoreMaker is an [election.Algorithm] with a Core of its own, if it keeps its epochs, its members
// or its disk differently from a Machine. Its Step is never called.
type CoreMaker interface {
	election.Algorithm
	NewCore(c Config) (Core, error)
}

// NewCore checks c and gives the Core that goes with its Algorithm, a [Machine] unless
// it makes its own. It waits for its Started event.
func NewCore(c Config) (Core, error) {
	if own, ok := c.Algorithm.(CoreMaker); ok {
		return own.NewCore(c)
	}
	m, err := New(c)
	if err != nil {
		return nil, err
	}
	return m, nil
}

var _ Core = (*Machine)(nil)

// Validate reports every fault of c at once, or nil.
func (c Config) Validate() error {
	var faults []error
	if c.Algorithm == nil {
		faults = append(faults, errors.New("no algorithm: set one, such as bully.New()"))
	}
	if _, err := election.ParseID(string(c.Self.ID)); err != nil {
		faults = append(faults, err)
	}
	seen := map[election.ID]bool{}
	for _, e := range c.Members {
		switch _, err := election.ParseID(string(e.ID)); {
		case err != nil:
			faults = append(faults, fmt.Errorf("member list: %w", err))
		case seen[e.ID]:
			faults = append(faults, fmt.Errorf("member list: id %s is given twice: give each member its own", e.ID))
		case e.ID.Kind() != c.Self.ID.Kind():
			faults = append(faults, fmt.Errorf("member list: id %s is a %v, but this member's id %s is a %v: all ids of a cluster must be of one kind", e.ID, e.ID.Kind(), c.Self.ID, c.Self.ID.Kind()))
		}
		seen[e.ID] = true
	}
	others := slices.DeleteFunc(slices.Clone(c.Members), func(e election.Member) bool { return e.ID == c.Self.ID })
	if len(others) >= election.MaxMembers || election.ListBytes(others)+(election.Member{Rank: c.Self, Address: c.Address}).Size() > election.MaxListBytes {
		faults = append(faults, fmt.Errorf("%d members: %w", len(c.Members), election.ErrFull))
	}
	return errors.Join(append(faults, c.Timing.Validate())...)
}

// MemberView is what a member knows of a peer.
type MemberView struct {
	election.Member
	State       election.MemberState // [election.StateAdded] until more is known
	Epoch       uint64               // of the token it last acknowledged to the leader
	Heard       time.Time            // when this member last received it; zero: never
	Incarnation uint64               // 0: unknown
	Eligibility election.Eligibility
	Meta        map[string]string // what it publishes; not to be changed
	Reaped      time.Time         // when the leader removes it if it stays away; zero: it does not
	Electing    bool              // of this member itself: its Algorithm, or its request for leadership, awaits an answer
}

// QuorumView is what a member of a quorum knows of votes and of its own lease. Times are
// those of its steps.
type QuorumView struct {
	Voters     [][]election.ID           // two sets while a set replaces the last: each must agree
	Term       uint64                    // the highest that this member knows
	Lease      time.Time                 // until when what it leads may run; zero: it leads nothing
	Answered   map[election.ID]time.Time // of a leader: when the beat left that each voter has answered last; it counts to the lease from then
	Promise    time.Time                 // until when it grants no vote; zero: it grants them
	PromisedTo election.ID               // the leader that it has received; none: none since it started, or since it led
	CampaignAt time.Time                 // when it asks for votes; zero: not yet
	Granted    int                       // of a candidate: the votes that it has, its own included; 0: it asks for none
	Barred     []election.ID             // members that it ignores, as they come with a disk that has no vote here
}

// Wait is what runs out at a member, for a picture of it.
type Wait struct {
	For       string      // leader, lease, promise, answers, campaign or votes
	Peer      election.ID // of leader and promise: the member concerned; none: no member
	Until     time.Time   // of the member's steps; zero for votes, which do not run out
	Got, Need int         // of votes
}

// Waits returns what runs out at a member: until when it waits for its leader's next message, for
// acknowledgements of its lead, for the answers to what it asked, or keeps a promise.
func Waits(c Core) []Wait {
	if q, ok := c.(interface{ Votes() QuorumView }); ok {
		return waitsOfVoter(q.Votes())
	}
	m, ok := c.(*Machine)
	if !ok {
		return nil
	}
	list := []Wait{{For: "answers", Until: m.alarms.First(func(name string) bool {
		return !strings.HasPrefix(name, ownTimers) || name == timerVouch || name == timerDiscovery
	})}}
	switch {
	case m.cfg.NoDetector:
	case m.tenure.Leading() && m.detector.Accompanied(m.now):
		list = append(list, Wait{For: "lease", Until: m.detector.UnheardAt()})
	case m.tenure.Live() && !m.tenure.Beats():
		list = append(list, Wait{For: "leader", Peer: m.tenure.Held().Leader.ID, Until: m.detector.SilentAt()})
	}
	return list
}

func waitsOfVoter(v QuorumView) []Wait {
	list := []Wait{{For: "lease", Until: v.Lease}, {For: "promise", Peer: v.PromisedTo, Until: v.Promise}, {For: "campaign", Until: v.CampaignAt}}
	if v.Granted > 0 && len(v.Voters) > 0 {
		list = append(list, Wait{For: "votes", Got: v.Granted, Need: len(v.Voters[0])/2 + 1})
	}
	return list
}
