package batuta

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"github.com/batuta-dev/batuta/internal/disk/statefile"
	"github.com/batuta-dev/batuta/internal/net/wire"
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
	PausedWith ID        // the member that keeps the lead until then; none: the next leader

	Role          Role
	Electing      bool // it takes part in an election: it awaits answers, or a leader
	Standing      Standing
	StandingWhy   string         // why it does not stand, the reason, such as the last output of a failing check; "" when it does
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
	Links    int               // connections that stand

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
	Successor     ID   // the member to which it passes messages on; none while it is alone
}

// MemberStatus is the state of a member, as the leader reports it.
type MemberStatus struct {
	ID       ID
	Address  string
	Priority int
	State    MemberState
	Standing Standing          // as the leader reports it; before that, as the list of members has it
	Epoch    uint64            // of the token it last acknowledged
	LastSeen time.Time         // when this member last received from it; zero: never
	Linked   bool              // whether a connection between it and this member stands
	Refusal  string            // why the last connection between it and this member was refused; empty once a connection stands
	Meta     map[string]string // what it publishes of itself; not to be changed
	ReapedAt time.Time         // when the leader removes it if it stays away, see [Config].ReapAfter; zero: it does not

	// Unresolved is why the name in Address did not resolve when this member last dialed it. Empty: it did,
	// Address has no name, or the member is connected.
	Unresolved string
}

// Status is a snapshot of this member's state; the last snapshot, once the
// node has ended. The node answers at once unless its loop is stuck, or the node does not run yet: then
// the error is ctx's.
func (n *Node) Status(ctx context.Context) (Status, error) {
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
		Leader:    v.Token.Leader.ID, LeaderAddress: v.Address, Token: v.Token, Ready: v.Ready(), Since: v.Since,
		Epoch: n.machine.Held().Epoch, Security: n.cfg.Security.options().Mode(),
		Timing: n.cfg.timing(), Rhythm: n.rhythm.figures(n.clock.Now()), Incarnation: n.incarnation, Uptime: n.clock.Now(), Listen: n.addr, Advertise: n.cfg.Advertise,
		Sent: maps.Clone(n.sent), Lost: maps.Clone(n.lost), Links: n.net.Links(),
		Standing: standings[n.machine.Standing()], StandingWhy: n.whyIneligible(), StandingSince: n.stood, DiskError: n.trouble(), SavesFailed: n.disk.failed,
		LogDropped: n.logs.Dropped(),
	}
	s.Paused, s.PausedWith = pausedBy(n)
	if n.cfg.Wire == nil {
		s.WireVersion = wire.ProtocolVersion
	}
	if _, ok := n.store.(*dataDir); ok {
		s.StateVersion = statefile.Version
	}
	s.Guarantee, s.Fencing = promises(n.cfg.Algorithm)
	life := n.security.Life()
	s.Certificate, s.Authority = CertificateLife(life.Certificate), CertificateLife(life.Authority)
	if q, ok := n.cfg.Algorithm.(interface{ Leasing() (string, float64) }); ok {
		s.Takeover, s.ClockDrift = q.Leasing()
		s.Unattested = n.oaths.bars(s.Takeover)
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
			s.Role, s.Electing = role(v, m), m.Electing || !v.Defined()
		}
		if !m.Heard.IsZero() {
			m.Heard = m.Heard.Add(set)
		}
		if !m.Reaped.IsZero() {
			m.Reaped = m.Reaped.Add(set)
		}
		s.Members = append(s.Members, MemberStatus{ID: m.ID, Address: n.address(m.ID), Priority: m.Priority,
			State: m.State, Standing: cmp.Or(standings[m.Eligibility], StandingEligible), Epoch: m.Epoch, LastSeen: m.Heard, Linked: n.net.Linked(m.ID), Refusal: n.net.Refusal(m.ID), Unresolved: n.net.Unresolved(m.ID), Meta: m.Meta, ReapedAt: m.Reaped})
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

// Standing is whether a member is a candidate, and if not, the reason.
type Standing string

// Standings.
const (
	StandingEligible  Standing = "eligible"    // it stands, or leads
	StandingUnhealthy Standing = "unhealthy"   // its own check has failed; it leads as a last resort at most
	StandingResigned  Standing = "resigned"    // it stepped down; until a later leadership ends, or no member leads for 2·T
	StandingObserver  Standing = "observer"    // it is set up to follow only
	StandingDraining  Standing = "draining"    // its work of an earlier leadership has not stopped yet
	StandingUnsaved   Standing = "unsaved"     // its disk does not save its state
	StandingJoining   Standing = "joining"     // it awaits the leader of the cluster that it joins, or that there is one
	StandingRefused   Standing = "refused"     // a live member of its list refuses its connections
	StandingPaused    Standing = "paused"      // the leader keeps leadership until a pause ends, see [Node.Pause]
	StandingFew       Standing = "few-members" // it receives fewer members than [Config].MinMembers
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

// diskHealth is how saving goes. It belongs to the loop.
type diskHealth struct {
	began  time.Duration // when the outstanding save did, on the node's clock; 0: none is
	err    error         // of the last save
	failed uint64        // all saves
}

// saveBegins takes note that a save begins.
func (n *Node) saveBegins() { n.disk.began = max(n.clock.Now(), 1) }

// wasSaved takes note of how it ended, and logs what has changed.
func (n *Node) wasSaved(err error) {
	was := n.disk.err
	n.disk.began, n.disk.err = 0, err
	switch {
	case err != nil:
		if n.disk.failed++; was == nil || was.Error() != err.Error() {
			n.cfg.Logger.Warn("the state cannot be saved: this member follows, and is no candidate until it can", "error", err)
		}
	case was != nil:
		n.cfg.Logger.Warn("the state can be saved again", "failed", n.disk.failed)
	}
}

// trouble is what is wrong with the disk; "" when nothing is known to be.
func (n *Node) trouble() string {
	if since := n.clock.Now() - n.disk.began; n.disk.began > 0 && since > n.timeout {
		return fmt.Sprintf("a save has not ended in %v", since.Round(time.Millisecond))
	}
	if n.disk.err != nil {
		return n.disk.err.Error()
	}
	return ""
}

// whyIneligible is the reason for which this member is no candidate; "": it is a candidate.
func (n *Node) whyIneligible() string {
	switch standings[n.machine.Standing()] {
	case StandingUnhealthy:
		return cmp.Or(n.healthError, "its first check has not ended yet")
	case StandingResigned:
		if n.retired {
			return "Lead has returned, so no work of a leader runs here: it is a candidate again when Lead is called again, or it is asked to campaign"
		}
		return "it was asked to step down, and is a candidate again when a later leader's time ends, or no member leads"
	case StandingObserver:
		if n.cfg.Witness {
			return "it is a witness: it votes, and never leads"
		}
		return "it is set up to follow only"
	case StandingDraining:
		return "what it ran as leader " + n.machine.Held().String() + " has not stopped yet"
	case StandingUnsaved:
		return n.trouble()
	case StandingJoining:
		return cmp.Or(n.awaited(), "it has just joined and awaits the leader")
	case StandingRefused:
		return n.whyRefused()
	case StandingPaused:
		until, leader := pausedBy(n)
		return fmt.Sprintf("the cluster is paused until %s: member %s keeps leadership, alive or not; batuta resume ends that", until.UTC().Format(time.RFC3339), leader)
	case StandingFew:
		return fmt.Sprintf("it receives fewer than %d members, itself included, and leads only while it receives so many (min-members)", n.cfg.MinMembers)
	case StandingClosing:
		return "it closes"
	case StandingRemoved:
		return "it is on no member's list any more"
	}
	return ""
}

// whyRefused names the members that refuse this member, which therefore does not lead, and the remedy.
func (n *Node) whyRefused() string {
	m, ok := n.machine.(interface{ RefusedBy() []election.ID })
	if !ok {
		return ""
	}
	var words, remedies []string
	for _, id := range m.RefusedBy() {
		why := n.net.Refusal(id)
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
func (n *Node) noteStanding() {
	if until, leader := pausedBy(n); until.IsZero() == n.pausing {
		if n.pausing = !n.pausing; n.pausing {
			n.cfg.Logger.Warn("the cluster is paused: no other member takes over", "until", until, "leader", leader)
		} else {
			n.cfg.Logger.Warn("the pause of the cluster has ended")
		}
	}
	now := standings[n.machine.Standing()]
	if now == n.standing || n.closing {
		return
	}
	why := n.whyIneligible()
	n.cfg.Logger.Info("eligibility changed", "was", string(n.standing), "is", string(now), "why", why)
	n.standing, n.stood = now, time.Now()
	n.history.add(Event{Time: n.stood, Kind: EventStanding, View: n.view(), Standing: now, Why: why})
	if now == StandingUnsaved && n.disk.err == nil {
		n.cfg.Logger.Warn("the disk does not answer: this member is no candidate until it does", "error", n.trouble())
	}
}

// This file measures what T is to be longer than: how long the members are silent that this
// member watches, and for how long its own loop is held up.

// Rhythm is the longest that a member has seen of late: in the last 10 minutes, or
// since it started.
type Rhythm struct {
	Silence   time.Duration // of the leader it follows, or of a follower of its own, while it did not count as down; 0: it has received from none twice
	Stall     time.Duration // for which its loop ran late
	RoundTrip time.Duration // from a heartbeat of its own to the acknowledgement; 0: it has led no member

	// The same of the last two seconds: a client that asks every second misses nothing.
	RecentSilence, RecentStall, RecentRoundTrip time.Duration
}

// Headroom is the part of T that the longest silence and stall have left, from 1 down;
// below 0 they would have made a suspect.
func (r Rhythm) Headroom(t time.Duration) float64 {
	return 1 - float64(max(r.Silence, r.Stall))/float64(t)
}

// rhythm belongs to the loop.
type rhythm struct {
	heard                     map[ID]time.Duration // when the leader, or a follower, last sent in this leadership
	beats                     map[ID]beat          // to each follower, the last
	silence, stall, roundTrip peaks
}

// beat is a heartbeat that was sent, and is to be acknowledged.
type beat struct {
	stamp int64
	at    time.Duration
}

// How long figures are kept.
const (
	rhythmKept   = 10 * time.Minute
	rhythmRecent = 2 * time.Second
)

// peaks keeps the greatest of some durations for a while: short and long.
type peaks struct{ recent, kept peak }

func (p *peaks) add(now, d time.Duration) {
	p.recent.add(now, d, rhythmRecent)
	p.kept.add(now, d, rhythmKept)
}

// peak keeps the greatest duration of the last span at least, and of twice that at
// most.
type peak struct {
	turn        int64
	now, before time.Duration
}

func (p *peak) add(now, d, span time.Duration) {
	p.roll(now, span)
	p.now = max(p.now, d)
}

func (p *peak) of(now, span time.Duration) time.Duration {
	p.roll(now, span)
	return max(p.now, p.before)
}

func (p *peak) roll(now, span time.Duration) {
	switch turn := int64(now / span); {
	case turn == p.turn:
	case turn == p.turn+1:
		p.turn, p.before, p.now = turn, p.now, 0
	default:
		p.turn, p.before, p.now = turn, 0, 0
	}
}

// takesIn notes what a message shows of the rhythm.
func (r *rhythm) takesIn(now time.Duration, m *election.Message) {
	if m.Kind != election.Beat && m.Kind != election.Ack {
		return // the rest go now and then
	}
	if last, ok := r.heard[m.From]; ok {
		r.silence.add(now, now-last)
	}
	if r.heard == nil {
		r.heard = map[ID]time.Duration{}
	}
	r.heard[m.From] = now
	if b, ok := r.beats[m.From]; ok && m.Kind == election.Ack && m.Stamp == b.stamp {
		r.roundTrip.add(now, now-b.at)
	}
}

// sends notes a beat that leaves.
func (r *rhythm) sends(now time.Duration, to ID, m *election.Message) {
	if m.Kind == election.Beat {
		if r.beats == nil {
			r.beats = map[ID]beat{}
		}
		r.beats[to] = beat{m.Stamp, now}
	}
}

// forgets has nothing count any more that lasts from before: a different member leads, or a
// member is gone.
func (r *rhythm) forgets(ids ...ID) {
	for _, id := range ids {
		delete(r.heard, id)
		delete(r.beats, id)
	}
	if len(ids) == 0 {
		clear(r.heard)
		clear(r.beats)
	}
}

// figures are what the rhythm comes to.
func (r *rhythm) figures(now time.Duration) Rhythm {
	return Rhythm{
		Silence: r.silence.kept.of(now, rhythmKept), Stall: r.stall.kept.of(now, rhythmKept), RoundTrip: r.roundTrip.kept.of(now, rhythmKept),
		RecentSilence: r.silence.recent.of(now, rhythmRecent), RecentStall: r.stall.recent.of(now, rhythmRecent), RecentRoundTrip: r.roundTrip.recent.of(now, rhythmRecent),
	}
}

// silence is how long ago the last sign of a leadership came that ends now.
func (n *Node) silence(token Token, cause Cause) time.Duration {
	switch cause {
	case election.CauseResigned, election.CauseRemoved, election.CauseStopped:
		return 0 // it was announced
	}
	if token.Leader.ID == n.id {
		return n.steppedAgo
	}
	for _, m := range n.machine.Members() {
		if m.ID == token.Leader.ID && !m.Heard.IsZero() {
			return max(0, n.stepped-m.Heard.Sub(n.born))
		}
	}
	return 0 // it was known from third members only
}
