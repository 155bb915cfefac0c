package batuta

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// Role is what part a member plays.
type Role string

// Roles.
const (
	RoleLeader    Role = "leader"
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate" // knows no leader, and stands for election
	RoleUndefined Role = "undefined" // knows no leader, and stands aside
)

// What [Status].Guarantee tells.
const (
	// GuaranteeBestEffort is the promise of the classic algorithms: once faults stop, every
	// group of which each two reach each other, directly or by a third, agrees on one leader in
	// bounded time; while a partition lasts, each side has its own.
	GuaranteeBestEffort = "best-effort"
	// GuaranteeOneLeader is that of package quorum, and of module engines: at most one
	// leadership is in force at every instant.
	GuaranteeOneLeader = "one-leader"
)

// Status is what a member knows at one moment.
type Status struct {
	ID         ID
	Cluster    string
	Election   string
	Algorithm  string
	Guarantee  string  // [GuaranteeBestEffort] or [GuaranteeOneLeader]
	Fencing    bool    // whether the token is a fence: see [Token]
	Takeover   string  // quorum: when the next leader comes, "lease" or "refused"; else empty
	ClockDrift float64 // quorum: by which part the rates of two members' clocks may differ

	Role          Role
	Standing      Standing
	StandingWhy   string         // why it does not stand, in words, such as the last ones of a failing check; "" when it does
	StandingSince time.Time      // since when Standing holds
	Leader        ID             // none while undefined
	LeaderAddress string         // HOST:PORT, empty while undefined
	Epoch         uint64         // of Token, or the last one held while undefined
	Token         Token          // zero while undefined
	Since         time.Time      // when this member began to see that leader, or none
	Members       []MemberStatus // lowest rank first, this one included

	Ring   *RingStatus   // of the ring algorithms; else nil
	Quorum *QuorumStatus // of quorum; else nil

	Security    string          // "insecure", "secret" or "tls": what a stranger has to get past, see [Security]
	Certificate CertificateLife // this member's, where it is in a file
	Authority   CertificateLife // that of the authority it is believed by, then

	Timing      election.Timing
	Rhythm      Rhythm
	Incarnation uint64
	Uptime      time.Duration
	Listen      string // as bound
	Advertise   string // as told to the others

	Sent     map[string]uint64 // messages by kind
	SentSize uint64            // bytes written to other members; of batuta's own wire alone
	Received map[string]uint64 // messages by kind
	Lost     map[Cause]uint64  // leaderships ended, by cause
	Refused  map[string]uint64 // connections refused, by this member or another, by reason
	Bad      map[string]uint64 // frames dropped, by reason
	Links    int               // connections that stand

	DiskError   string // what is wrong with saving the state; "" when nothing is
	SavesFailed uint64

	LogDropped uint64 // log records dropped because 1,024 waited to be written
}

// QuorumStatus is what a member of a quorum knows of votes and of its own lease.
type QuorumStatus struct {
	Voters     [][]ID               // two sets while one takes over from another: a majority of each must agree
	Term       uint64               // the highest that this member knows
	Lease      time.Duration        // how long a leadership holds once a majority has answered a beat, from when that left
	Left       time.Duration        // of this member's own lease; 0 or less: it leads nothing
	Answered   map[ID]time.Duration // of a leader: how long ago the beat left that each other voter has answered last
	Promise    time.Duration        // for how long it grants no vote; 0: it does
	PromisedTo ID                   // whom it has heard lead; none: nobody since it started, or nobody any more
}

// quorum is what this member knows of votes; nil: its algorithm has none.
func (n *Node) quorum() *QuorumStatus {
	c, ok := n.machine.(interface{ Votes() machine.QuorumView })
	if !ok {
		return nil
	}
	v, now := c.Votes(), n.now()
	s := &QuorumStatus{Voters: v.Voters, Term: v.Term, PromisedTo: v.PromisedTo, Answered: map[ID]time.Duration{}}
	if a, ok := n.cfg.Algorithm.(leasing); ok {
		s.Lease = a.Lease(n.timeout)
	}
	if !v.Lease.IsZero() {
		s.Left = v.Lease.Sub(now)
	}
	if !v.Promise.IsZero() {
		s.Promise = max(v.Promise.Sub(now), 0)
	}
	for id, at := range v.Answered {
		s.Answered[id] = now.Sub(at)
	}
	return s
}

// RingStatus is a member's place in the ring.
type RingStatus struct {
	Participating bool // whether it takes part in a contest: the flag of docs/sources.md, "Leader election"
	Successor     ID   // to whom it passes messages on; none while it is alone
}

// MemberStatus is what is known of one member. Its state is as the leader tells it.
type MemberStatus struct {
	ID       ID
	Address  string
	Priority int
	State    MemberState
	Standing Standing          // as the leader tells it, too; of one not heard of yet what the list says
	Epoch    uint64            // of the token it last acknowledged
	LastSeen time.Time         // when this member last heard it; zero: never
	Linked   bool              // whether a connection between it and this member stands
	Refusal  string            // why the last connection between it and this member was refused; empty once one stands
	Meta     map[string]string // what it tells of itself; not to be changed

	// Unresolved is why the name in Address did not resolve when this member last dialed it. Empty: it did, or
	// Address has no name.
	Unresolved string
}

// Status is a snapshot of everything this member knows; the last one, once the
// node has ended. It waits for the node's loop, which answers at once unless it is
// stuck: see [Node.StatusContext].
func (n *Node) Status() Status {
	s, _ := n.StatusContext(context.Background())
	return s
}

// StatusContext is [Node.Status] for who does not wait longer than ctx lasts. Its
// error is ctx's: the loop has not answered, so that this member does not take part
// now.
func (n *Node) StatusContext(ctx context.Context) (Status, error) {
	status, err := ask(ctx, n, n.status)
	select {
	case <-n.done:
		return n.last.clone(), nil
	default:
		return status, err
	}
}

// clone is s with lists of its own.
func (s Status) clone() Status {
	s.Sent, s.Lost = maps.Clone(s.Sent), maps.Clone(s.Lost)
	s.Received, s.Refused, s.Bad = maps.Clone(s.Received), maps.Clone(s.Refused), maps.Clone(s.Bad)
	s.Members = slices.Clone(s.Members)
	return s
}

func (n *Node) status() Status {
	v := n.view()
	s := Status{
		ID: n.id, Cluster: n.cfg.Cluster, Election: n.cfg.Election,
		Algorithm: n.cfg.Algorithm.Name(),
		Leader:    v.Token.Leader.ID, LeaderAddress: v.Address, Token: v.Token, Since: v.Since,
		Epoch: n.machine.Held().Epoch, Security: n.cfg.Security.options().Mode(),
		Timing: n.cfg.timing(), Rhythm: n.rhythm.figures(n.clock.Now()), Incarnation: n.incarnation, Uptime: n.clock.Now(), Listen: n.addr, Advertise: n.cfg.Advertise,
		Sent: maps.Clone(n.sent), Lost: maps.Clone(n.lost), Links: n.net.Links(),
		Standing: standings[n.machine.Standing()], StandingWhy: n.whyIneligible(), StandingSince: n.stood, DiskError: n.trouble(), SavesFailed: n.disk.failed,
		LogDropped: n.logs.Dropped(),
	}
	s.Guarantee, s.Fencing = promises(n.cfg.Algorithm)
	life := n.security.Life()
	s.Certificate, s.Authority = CertificateLife(life.Certificate), CertificateLife(life.Authority)
	if q, ok := n.cfg.Algorithm.(interface{ Leasing() (string, float64) }); ok {
		s.Takeover, s.ClockDrift = q.Leasing()
	}
	s.Received, s.Refused, s.Bad = n.counters.Counts()
	s.SentSize = n.counters.SentBytes()
	set := time.Since(n.now()) // from the Machine's time to the calendar's
	if r, ok := n.cfg.Algorithm.(interface {
		Participating() bool
		Successor() ID
	}); ok {
		s.Ring = &RingStatus{r.Participating(), r.Successor()}
	}
	s.Quorum = n.quorum()
	for _, m := range n.machine.Members() {
		if m.ID == n.id {
			s.Role = role(v, m)
		}
		if !m.Heard.IsZero() {
			m.Heard = m.Heard.Add(set)
		}
		s.Members = append(s.Members, MemberStatus{ID: m.ID, Address: n.address(m.ID), Priority: m.Priority,
			State: m.State, Standing: cmp.Or(standings[m.Eligibility], StandingEligible), Epoch: m.Epoch, LastSeen: m.Heard, Linked: n.net.Linked(m.ID), Refusal: n.net.Refusal(m.ID), Unresolved: n.net.Unresolved(m.ID), Meta: m.Meta})
	}
	return s
}

func role(v View, self machine.MemberView) Role {
	switch {
	case v.Token.Leader.ID == self.ID:
		return RoleLeader
	case v.Defined():
		return RoleFollower
	case self.Eligibility == election.Eligible:
		return RoleCandidate
	}
	return RoleUndefined
}

// trace keeps the Machine's last records.
type trace struct {
	mu      sync.Mutex
	records []Record
	next    int // where the next one goes, once all places are taken
}

// traceSize is how many records are kept.
const traceSize = 512

// Trace gives the last records of what the Machine did and why, oldest first:
// at most 512.
func (n *Node) Trace() []Record {
	n.trace.mu.Lock()
	defer n.trace.mu.Unlock()
	return append(slices.Clone(n.trace.records[n.trace.next:]), n.trace.records[:n.trace.next]...)
}

// Reasons gives the records of Trace that are later than a moment, without those of
// messages. It takes little time however many records there are.
func (n *Node) Reasons(after time.Time) (found []Record) {
	t := &n.trace
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := len(t.records) - 1; i >= 0; i-- {
		r := &t.records[(t.next+i)%len(t.records)]
		if !r.At.After(after) {
			break
		}
		if r.Message == nil {
			found = append(found, *r)
		}
	}
	slices.Reverse(found)
	return found
}

// record keeps and logs what the Machine did.
func (n *Node) record(r Record) {
	if n.cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		n.cfg.Logger.Debug(r.What, "peer", r.Peer, "token", r.Token, "why", r.Why)
	}
	r.At = time.Now() // the Machine's own time may have parted from the calendar's
	n.trace.mu.Lock()
	defer n.trace.mu.Unlock()
	if len(n.trace.records) < traceSize {
		n.trace.records = append(n.trace.records, r)
		return
	}
	n.trace.records[n.trace.next] = r
	n.trace.next = (n.trace.next + 1) % traceSize
}
