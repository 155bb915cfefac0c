package batuta

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/net/wire"
)

// Role is what part a member plays.
type Role string

// Roles.
const (
	RoleLeader    Role = "leader"
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate" // knows no leader, and is a candidate
	RoleUndefined Role = "undefined" // knows no leader, and is not a candidate
)

// Values of [Status].Guarantee.
const (
	// GuaranteeBestEffort is the promise of the classic algorithms: once faults stop, every
	// group of which each two reach each other, directly or through a third, agrees on one leader in
	// bounded time; while a partition lasts, each side has its own.
	GuaranteeBestEffort = "best-effort"
	// GuaranteeOneLeader is that of package quorum, and of module engines: at most one
	// leadership is in force at every instant.
	GuaranteeOneLeader = "one-leader"
)

// Status is the state of a member at one moment.
type Status struct {
	ID         ID
	Cluster    string
	Election   string
	Algorithm  string
	Guarantee  string  // [GuaranteeBestEffort] or [GuaranteeOneLeader]
	Fencing    bool    // whether the token is a fence: see [Token]
	Takeover   string  // quorum: when the next leader comes, "attested", "lease" or "refused"; else empty
	Unattested string  // with takeover "attested": why no guard attests the end of this member's process; empty: a guard does
	ClockDrift float64 // quorum: by which part the rates of two members' clocks may differ

	Paused     time.Time // when a pause of the cluster ends, see [Node.Pause]; zero: there is none
	PausedWith ID        // the member that keeps leadership until then; none: the next leader

	Role          Role
	Electing      bool // it takes part in an election: it awaits answers, or a leader
	Standing      Standing
	StandingWhy   string         // why it is not a candidate, such as the last output of a failing check; "" when it is
	StandingSince time.Time      // since when Standing holds
	Leader        ID             // none while undefined
	LeaderAddress string         // HOST:PORT, empty while undefined
	Ready         bool           // as [View.Ready] of the leader
	Epoch         uint64         // of Token, or of the last token while undefined
	Token         Token          // zero while undefined
	Since         time.Time      // when this member began to see that leader, or none
	Members       []MemberStatus // lowest rank first, this member included

	Ring   *RingStatus   // of the ring algorithms; else nil
	Quorum *QuorumStatus // of quorum; else nil

	Security    string          // "insecure", "secret" or "tls": what a stranger has to get past, see [Security]
	Certificate CertificateLife // this member's, where it is in a file
	Authority   CertificateLife // that of the authority it is believed by, then

	Timing      election.Timing
	Rhythm      Rhythm
	Incarnation uint64
	Uptime      time.Duration

	WireVersion  int // of the protocol between members; 0: see [Config].Wire
	StateVersion int // of the layout of the data directory; 0: there is none

	Listen    string // as bound
	Advertise string // as published

	Sent     map[string]uint64 // messages by kind
	SentSize uint64            // bytes written to members; only of batuta's own wire
	Received map[string]uint64 // messages by kind
	Lost     map[Cause]uint64  // leaderships ended, by cause
	Refused  map[string]uint64 // connections refused, by this member or a peer, by reason
	Bad      map[string]uint64 // frames dropped, by reason
	Links    int               // open connections

	DiskError   string // what is wrong with saving the state; "" when nothing is
	SavesFailed uint64

	LogDropped uint64 // log records dropped because 1,024 waited to be written
}

// QuorumStatus is what a member of a quorum knows of votes and of its own lease.
type QuorumStatus struct {
	Voters     [][]ID               // two sets while they change: a majority of each must agree
	Term       uint64               // the highest that this member knows
	Lease      time.Duration        // how long a leadership holds once a majority has answered a beat, from when that left
	Left       time.Duration        // of this member's own lease; 0 or less: it leads nothing
	Answered   map[ID]time.Duration // of a leader: age of the last heartbeat that each voter has acknowledged
	Promise    time.Duration        // for how long it grants no vote; 0: it does
	PromisedTo ID                   // the leader that it follows; none: no leader since it started, or none any more
}

// quorum is what this member knows of votes; nil: its algorithm has none.
func (g *ground) quorum() *QuorumStatus {
	c, ok := g.machine.(interface{ Votes() machine.QuorumView })
	if !ok {
		return nil
	}
	v, now := c.Votes(), g.now()
	s := &QuorumStatus{Voters: v.Voters, Term: v.Term, PromisedTo: v.PromisedTo, Answered: map[ID]time.Duration{}}
	if a, ok := g.cfg.Algorithm.(leasing); ok {
		s.Lease = a.Lease(g.timeout)
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
	Participating bool // whether it takes part in an election: the flag of docs/sources.md, "Leader election"
	Successor     ID   // the member to which it passes messages on; none while it is alone
}

// MemberStatus is the state of a member, as the leader reports it.
type MemberStatus struct {
	ID       ID
	Address  string
	Priority int
	State    MemberState
	Standing Standing          // as the leader reports it; before that, as the list of members has it
	Epoch    uint64            // of the token it last acknowledged; 0: unknown
	LastSeen time.Time         // when this member last received from it; zero: never
	Linked   bool              // whether a connection between it and this member is open
	Refusal  string            // why the last connection between it and this member was refused; empty once a connection is open
	Meta     map[string]string // its metadata; not to be changed
	ReapedAt time.Time         // when the leader removes it if it stays away, see [Config].ReapAfter; zero: it does not

	// Unresolved is why the name in Address did not resolve when this member last dialed it. Empty: it did,
	// Address has no name, or the member is connected.
	Unresolved string
}

// Status is a snapshot of this member's state; the last snapshot, once the
// node has ended. The node answers at once unless its loop is stuck, or the node does not run yet: then
// the error is ctx's.
func (n *Node) Status(ctx context.Context) (Status, error) {
	status, err := ask(ctx, &n.calls, n.status)
	select {
	case <-n.done:
		return n.last.clone(), nil
	default:
		return status, err
	}
}

// MemberView is what a member itself answers to [Node.AskMembers].
type MemberView struct {
	ID        ID
	Address   string        // HOST:PORT, where it was asked
	Token     Token         // of the leadership that it follows or holds; zero: it has no leader
	RoundTrip time.Duration // of the question and the answer
	Err       error         // why there is no answer; nil: there is one
}

// AskMembers asks the other members of the list which leadership they follow, at most 64 at a time,
// over connections of members: their HTTP APIs are not needed. It returns within 2 s, or when ctx
// ends. The views are in the order of the list, lowest rank first. The error is that of ctx,
// [ErrClosed], or wraps [errors.ErrUnsupported] where [Config].Wire has no such question.
func (n *Node) AskMembers(ctx context.Context) ([]MemberView, error) {
	if n.cfg.Wire != nil {
		return nil, fmt.Errorf("members of this wire cannot be asked for their views: %w", errors.ErrUnsupported)
	}
	views, err := ask(ctx, &n.calls, func() (views []MemberView) {
		for _, m := range n.machine.Members() {
			if m.ID != n.id && m.State != StateRemoved {
				views = append(views, MemberView{ID: m.ID, Address: n.links.address(m.ID)})
			}
		}
		return views
	})
	within, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	turns := make(chan struct{}, askAtOnce)
	var asked sync.WaitGroup
	for i := range views {
		asked.Go(func() {
			turns <- struct{}{}
			n.links.askView(within, &views[i])
			<-turns
		})
	}
	asked.Wait()
	return views, cmp.Or(err, ctx.Err())
}

// Bounds of AskMembers: the wait for all views, and how many members are asked at once.
const (
	askTime   = 2 * time.Second
	askAtOnce = 64
)

func (l *links) askView(ctx context.Context, v *MemberView) {
	answer, err := l.transport.Check(ctx, v.Address, askTime)
	switch {
	case err != nil:
		v.Err = fmt.Errorf("member %s at %s does not answer: %w", v.ID, v.Address, err)
	case answer.From.ID != v.ID:
		v.Err = fmt.Errorf("address %s of member %s leads to member %s: correct the address", v.Address, v.ID, answer.From.ID)
	case answer.Reason != wire.ReasonCheck:
		v.Err = fmt.Errorf("member %s at %s refuses this one (%s): %s", v.ID, v.Address, answer.Reason.Known(), election.Shown(answer.Detail))
	case answer.Proof != nil:
		v.Err = l.security.Proves(*answer.Proof, string(v.ID))
	}
	if v.Err == nil {
		v.Token, v.RoundTrip = answer.Token, answer.RoundTrip
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
		Leader:    v.Token.Leader.ID, LeaderAddress: v.Address, Token: v.Token, Ready: v.Ready(), Since: v.Since,
		Epoch: n.machine.Held().Epoch, Security: n.cfg.Security.options().Mode(),
		Timing: n.cfg.timing(), Rhythm: n.links.rhythm.figures(n.clock.Now()), Incarnation: n.incarnation, Uptime: n.clock.Now(), Listen: n.addr, Advertise: n.cfg.Advertise,
		Sent: maps.Clone(n.links.sent), Lost: maps.Clone(n.lost), Links: n.links.net.Links(),
		Standing: standings[n.machine.Standing()], StandingWhy: n.stance.whyIneligible(), StandingSince: n.stance.stood, DiskError: n.saver.trouble(), SavesFailed: n.saver.failed, StateVersion: n.saver.version(),
		LogDropped: n.logs.Dropped(),
	}
	s.Paused, s.PausedWith = n.paused()
	if n.cfg.Wire == nil {
		s.WireVersion = wire.ProtocolVersion
	}
	s.Guarantee, s.Fencing = promises(n.cfg.Algorithm)
	life := n.links.security.Life()
	s.Certificate, s.Authority = CertificateLife(life.Certificate), CertificateLife(life.Authority)
	if q, ok := n.cfg.Algorithm.(interface{ Leasing() (string, float64) }); ok {
		s.Takeover, s.ClockDrift = q.Leasing()
		s.Unattested = n.oaths.bars(s.Takeover)
	}
	s.Received, s.Refused, s.Bad = n.links.counters.Counts()
	s.SentSize = n.links.counters.SentBytes()
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
			s.Role, s.Electing = role(v, m), m.Electing || !v.Defined()
		}
		if !m.Heard.IsZero() {
			m.Heard = m.Heard.Add(set)
		}
		if !m.Reaped.IsZero() {
			m.Reaped = m.Reaped.Add(set)
		}
		s.Members = append(s.Members, MemberStatus{ID: m.ID, Address: n.links.address(m.ID), Priority: m.Priority,
			State: m.State, Standing: cmp.Or(standings[m.Eligibility], StandingEligible), Epoch: m.Epoch, LastSeen: m.Heard, Linked: n.links.net.Linked(m.ID), Refusal: n.links.net.Refusal(m.ID), Unresolved: n.links.net.Unresolved(m.ID), Meta: m.Meta, ReapedAt: m.Reaped})
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
	next    int // where the next entry goes, once all places are taken
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
		n.cfg.Logger.LogAttrs(context.Background(), slog.LevelDebug, r.What, logged(r)...)
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

// logged has the keys and texts of /v1/trace, and no empty ones.
func logged(r Record) (attrs []slog.Attr) {
	kind := election.MessageKind("")
	if r.Message != nil {
		kind = r.Message.Kind
	}
	for _, a := range []slog.Attr{slog.String("election", r.Election), slog.String("message", string(kind)),
		slog.String("peer", string(r.Peer)), slog.String("token", r.Token.String()), slog.String("why", r.Why)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// Standing is whether a member is a candidate, and if not, the reason.
type Standing string

// Standings.
const (
	StandingEligible  Standing = "eligible"    // it is a candidate, or leads
	StandingUnhealthy Standing = "unhealthy"   // its own check has failed; it leads as a last resort at most
	StandingResigned  Standing = "resigned"    // it stepped down; until a later leadership ends, or no member leads for 2·T
	StandingObserver  Standing = "observer"    // it is set up to follow only
	StandingDraining  Standing = "draining"    // its work of an earlier leadership has not stopped yet
	StandingUnsaved   Standing = "unsaved"     // its disk does not save its state
	StandingJoining   Standing = "joining"     // it awaits the leader of the cluster that it joins, or that there is one
	StandingRefused   Standing = "refused"     // a live member of its list refuses its connections
	StandingPaused    Standing = "paused"      // the leader keeps leadership until a pause ends, see [Node.Pause]
	StandingFew       Standing = "few-members" // it receives fewer members than [Config].MinMembers, or under quorum is not connected to a majority
	StandingClosing   Standing = "closing"     // its process is about to end
	StandingRemoved   Standing = "removed"     // it is no member any more
)

// standings are the Machine's terms for them.
var standings = map[election.Eligibility]Standing{
	election.Eligible:            StandingEligible,
	election.IneligibleUnhealthy: StandingUnhealthy,
	election.LastResort:          StandingUnhealthy,
	election.IneligibleResigned:  StandingResigned,
	election.StandsNext:          StandingResigned,
	election.IneligibleObserver:  StandingObserver,
	election.IneligibleWorking:   StandingDraining,
	election.IneligibleUnsaved:   StandingUnsaved,
	election.IneligibleJoining:   StandingJoining,
	election.IneligibleUnfounded: StandingJoining,
	election.IneligibleRefused:   StandingRefused,
	election.IneligiblePaused:    StandingPaused,
	election.IneligibleFew:       StandingFew,
	election.IneligibleClosing:   StandingClosing,
	election.IneligibleGone:      StandingRemoved,
}

// stance is whether this member is a candidate, and why not. It is used in a turn of the node.
type stance struct {
	*ground
	saver    *saver
	joiner   *joiner
	duties   *duties
	standing Standing
	stood    time.Time // since when
	pausing  bool      // the cluster was paused when that was last looked at
	checked  error     // why the check finds this member unfit; nil: it finds it fit, or there is none
	reported error     // why the service does
}

// errUnchecked is why a member is unfit before its first check.
var errUnchecked = errors.New("its first check has not ended yet")

// judge decides whether this member is fit: the check and the service both have to find it so.
func (s *stance) judge() {
	if !s.closing { // a member that leaves is not fit
		s.emit(election.Event{Kind: election.Health, On: cmp.Or(s.checked, s.reported) == nil})
	}
}

// whyIneligible is the reason for which this member is no candidate; "": it is a candidate.
func (s *stance) whyIneligible() string {
	switch standings[s.machine.Standing()] {
	case StandingUnhealthy:
		return cmp.Or(s.checked, s.reported, errUnchecked).Error()
	case StandingResigned:
		if s.duties.retired {
			return "Lead has returned, so no work of a leader runs here: it is a candidate again when Lead is called again, or it is asked to campaign"
		}
		return "it was asked to step down, and is a candidate again when a later leader's time ends, or no member leads"
	case StandingObserver:
		if s.cfg.Witness {
			return "it is a witness: it votes, and never leads"
		}
		return "it is set up to follow only"
	case StandingDraining:
		return "what it ran as leader " + s.machine.Held().String() + " has not stopped yet"
	case StandingUnsaved:
		return s.saver.trouble()
	case StandingJoining:
		return cmp.Or(s.joiner.awaited(), "it has just joined and awaits the leader")
	case StandingRefused:
		return s.whyRefused()
	case StandingPaused:
		until, leader := s.paused()
		return fmt.Sprintf("the cluster is paused until %s: member %s keeps leadership, alive or not; batuta resume ends that", until.UTC().Format(time.RFC3339), leader)
	case StandingFew:
		if c, ok := s.machine.(interface{ Settled() bool }); ok && !c.Settled() {
			return "its first start waits until more than half of the other members have noted its disk: of three members all must be up and able to save"
		}
		if s.cfg.MinMembers == 0 {
			return "it is connected to fewer members than a majority takes, and could not be elected"
		}
		return fmt.Sprintf("it receives fewer than %d members, itself included, and leads only while it receives so many (min-members)", s.cfg.MinMembers)
	case StandingClosing:
		return "it closes"
	case StandingRemoved:
		return "it is on no member's list any more"
	}
	return ""
}

// whyRefused names the members that refuse this member, which therefore does not lead, and the remedy.
func (s *stance) whyRefused() string {
	m, ok := s.machine.(interface{ RefusedBy() []election.ID })
	if !ok {
		return ""
	}
	var words, remedies []string
	for _, id := range m.RefusedBy() {
		why := s.joiner.net.Refusal(id)
		if why == "" {
			continue // it has admitted this member since
		}
		words = append(words, fmt.Sprintf("member %s (%s)", id, why))
		reason, _, _ := strings.Cut(why, ":")
		if remedy := remedyOf(wire.Reason(reason)); !slices.Contains(remedies, remedy) {
			remedies = append(remedies, remedy)
		}
	}
	return "it does not lead next to members that refuse it: " + strings.Join(words, ", ") + ": " + strings.Join(remedies, "; ")
}

// remedyOf is what to do about a member that refuses this member.
func remedyOf(why wire.Reason) string {
	switch why {
	case wire.ReasonNotMember:
		return "add this member to their list with \"batuta members add\", or correct the lists"
	case wire.ReasonSecurity:
		return "give all members one secret, or certificates of one authority"
	case wire.ReasonTimes:
		return "give all members the same Config.TMax and Config.TProcess"
	}
	return "give all members the same " + string(why)
}

// noteStanding logs and publishes a standing that has changed.
func (s *stance) noteStanding() {
	if until, leader := s.paused(); until.IsZero() == s.pausing {
		if s.pausing = !s.pausing; s.pausing {
			s.cfg.Logger.Warn("the cluster is paused: no other member takes over", "until", until, "leader", leader)
		} else {
			s.cfg.Logger.Warn("the pause of the cluster has ended")
		}
	}
	now := standings[s.machine.Standing()]
	if now == s.standing || s.closing {
		return
	}
	why := s.whyIneligible()
	s.cfg.Logger.Info("eligibility changed", "was", string(s.standing), "is", string(now), "why", why)
	s.standing, s.stood = now, time.Now()
	s.history.add(Event{Time: s.stood, Kind: EventStanding, View: s.view(), Standing: now, Why: why})
	if now == StandingUnsaved && s.saver.fault == nil {
		s.cfg.Logger.Warn("the disk does not answer: this member is no candidate until it does", "error", s.saver.trouble())
	}
}
