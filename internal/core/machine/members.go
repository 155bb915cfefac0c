package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/roster"
)

// member is what a Machine knows of a member.
type member struct {
	election.Member
	incarnation uint64
	state       election.MemberState // as last notified
	down        bool                 // counts as gone until it is received again
	eligibility election.Eligibility // why it is no candidate, as it last reported
	saidAt      time.Time            // when it reported that itself
	polled      bool                 // it is asked whether that still holds
	deaf        bool                 // it has not answered that in time, nor was it received since
	eligibleAt  time.Time            // when it reported that it is a candidate, and had not before
	gaveTurn    bool                 // it reported that it is a candidate, and the contest was called again for it to take over
	draining    bool                 // its work of an ended leadership may still run, as it last reported
	epoch       uint64               // of the token it last acknowledged
	ackedAt     time.Time            // when it last acknowledged a leadership of ours
	awaited     bool                 // its reply to a probe is awaited
	probed      bool                 // it has been asked in this discovery
	askedAt     time.Time            // when that was; zero: it has ended since
	replied     bool                 // and has answered
	reports     election.ID          // the leader that it reports, which is not on our list yet

	link        bool          // a connection stands
	dialing     bool          // a dial is under way
	anew        bool          // no dial has failed since its link ended, or since it leads without a link
	redial      time.Time     // not before
	backoff     time.Duration // until the dial after that
	heard       time.Time     // when it was last received; zero: never
	missed      time.Time     // when a dial to it last failed
	proof       proof         // that its process has ended
	used        time.Time     // when more than a routine message last went to it
	comes       time.Time     // when that will have come, at the latest
	pending     time.Time     // when the first of those went since which it was not received; zero: it was
	unconfirmed []sent        // what went to it, until it shows that it has come; never changed, but replaced
	rebuffedAt  time.Time     // when it refused us as a different process; zero: it did not
	refusal     error         // why it refuses our connections, though it lives; nil: it does not, or does not answer
	refusedAt   time.Time     // since when it does
	version     uint64        // of the member states it has acknowledged

	relays

	since    time.Time // when it was put on the list, in this life
	differs  bool      // its list differs from ours, as it last reported
	nextPull time.Time // not before is it asked for that
}

// proof is what a refused connection proves: that the process of a member has ended, unless that
// process was seen to live on.
type proof struct {
	taken   bool   // a refusal was taken for its end
	under   uint64 // the epoch under which it led then; 0: it did not
	refuted bool   // it lived on: a refusal proves nothing
}

// roll is the members: the list, what is known of each member on it, and by which way messages reach
// it. It has no reference to its Machine: a method is given the time, and answers.
type roll struct {
	roster  roster.Roster
	members []member        // lowest rank first, this member included
	ranks   []election.Rank // the same, for the Algorithm
	index   map[election.ID]int
	me      int    // of this member in members
	version uint64 // of what is known of the members; grows with each change

	self    election.ID
	timing  election.Timing
	joins   bool // members have admitted this member
	noLinks bool // there is neither a detector nor a link
}

// statesChanged has the next heartbeats carry the members' states.
func (r *roll) statesChanged() { r.version++ }

// enlist takes up the member list: what the disk remembers, and what the configuration has. It
// returns the removed members.
func (r *roll) enlist(c Config) (gone []election.Member) {
	own := election.Member{Rank: c.Self, Address: c.Address, Observer: c.Observer}
	if c.Self.Priority != 0 && !c.Joins {
		own.Version, own.Fixed = 1, true // no configuration has it: all are to learn of it
	}
	r.self, r.timing, r.joins, r.noLinks = c.Self.ID, c.Timing, c.Joins, c.NoDetector
	r.roster = roster.New(own, c.State.Members, c.Members)
	r.members = make([]member, 0, len(r.roster.All()))
	for _, e := range r.roster.All() {
		if e.Departure != election.Present && e.ID != c.Self.ID {
			gone = append(gone, e)
			continue
		}
		known := member{Member: e, eligibility: e.Eligibility()}
		if e.ID == c.Self.ID {
			known.Rank, known.incarnation, known.state = c.Self, c.Incarnation, election.StateUp
		}
		r.members = append(r.members, known)
	}
	r.rank()
	return gone
}

// rank puts the members in order after any of their ranks may have changed.
func (r *roll) rank() {
	slices.SortFunc(r.members, func(a, b member) int { return a.Compare(b.Rank) })
	r.index = make(map[election.ID]int, len(r.members)) // a clone may share the old map
	r.ranks = make([]election.Rank, len(r.members))
	for i, e := range r.members {
		r.index[e.ID], r.ranks[i] = i, e.Rank
	}
	r.me = r.index[r.self]
}

// enroll adds a member to the list.
func (r *roll) enroll(known member) {
	r.members = append(r.members, known)
	r.rank()
	r.statesChanged()
}

// strike takes a member off.
func (r *roll) strike(i int) {
	r.members = slices.Delete(slices.Clone(r.members), i, i+1)
	r.rank()
	r.statesChanged()
}

// others calls f for every member but this member, highest rank first: the likeliest leader
// receives first.
func (r *roll) others(f func(i int, peer *member)) {
	for i := len(r.members) - 1; i >= 0; i-- {
		if i != r.me {
			f(i, &r.members[i])
		}
	}
}

// Self is this member, as it ranks now.
func (m *Machine) Self() election.Rank { return m.cfg.Self }

// setState records what is known of a member and reports when it has changed.
func (m *Machine) setState(i int, s election.MemberState) {
	peer := &m.members[i]
	if peer.state == s || i == m.me {
		return
	}
	peer.state = s
	m.statesChanged()
	m.do(election.Action{Kind: election.Notify, Member: peer.ID, Status: s})
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
	PromisedTo election.ID               // the leader that it has received; none: it has received none since it started
	CampaignAt time.Time                 // when it asks for votes; zero: not yet
	Granted    int                       // of a candidate: the votes that it has, its own included; 0: it asks for none
}

// Wait is what runs out at a member, for a picture of it.
type Wait struct {
	For       string      // leader, lease, promise, answers, campaign or votes
	Peer      election.ID // of leader and promise: the member concerned; none: nobody
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

// Members are all members as this member sees them, lowest rank first.
func (m *Machine) Members() []MemberView {
	views := make([]MemberView, len(m.members))
	for i, e := range m.members {
		views[i] = MemberView{e.Member, e.state, e.epoch, e.heard, e.incarnation, e.eligibility, m.metas.Of(e.ID), m.reaper.At(e.ID), false}
		if e.state == election.StateUnknown {
			views[i].State = election.StateAdded
		}
	}
	views[m.me].Epoch, views[m.me].Heard, views[m.me].Eligibility = m.tenure.Held().Epoch, m.now, m.eligibility()
	views[m.me].Electing = !m.alarms.First(func(timer string) bool {
		return timer == timerHandover || !strings.HasPrefix(timer, ownTimers)
	}).IsZero()
	return views
}
