package quorum

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
	"github.com/batuta-dev/batuta/internal/core/meta"
	"github.com/batuta-dev/batuta/internal/core/pause"
	"github.com/batuta-dev/batuta/internal/core/states"
)

// peer is a member of the cluster, as this member sees it.
type peer struct {
	number      uint64 // in raft; 0: not known yet
	rank        election.Rank
	address     string // by the log
	elsewhere   string // an address that it may have moved to: see sight
	detour      bool   // it is dialed at elsewhere next
	strayed     bool   // the driver dials it at elsewhere
	observer    bool
	incarnation uint64

	link    bool
	mute    bool // no message has arrived over it yet
	dialing bool
	since   time.Time // when the link was made
	redial  time.Time // when to dial it again; zero: not at all
	backoff time.Duration
	heard   time.Time
	asked   time.Time // since when an answer is due; zero: none is
	down    bool
	state   election.MemberState
	aside   election.Eligibility
	barred  bool                  // its messages are ignored: it has a different disk
	answers int                   // cards shown over this link because it asked
	noted   bool                  // it has noted this member's disk
	pullAt  time.Time             // when its metadata may be requested again
	pace    pace                  // of its clock
	guest   bool                  // it is on no list here: see mayVisit
	voids   bool                  // it has reported that this member was removed
	changed uint64                // with voids, the last change in its log: see [roster]
	report  election.MemberReport // the last of the leader that this member follows; zero: there is none

	acked    int64         // the latest stamp of this term that it acknowledged
	reported uint64        // the version of the states that it acknowledged
	granted  uint64        // the last term for which it granted this member its vote, or would
	promise  time.Duration // with it: the longer T of an earlier process; 0: it has none
	match    uint64        // up to where its log matches the leader's, for a heartbeat
	request  *pb.Message   // the last request for its vote
	deferred *pb.Message   // its request for a vote, which waits until a promise ends
	outdated bool          // since the last leader, it has asked for a vote with an older log than this member's
}

// crew is every member but this, and the way to it: links, dials, what each has sent of itself and
// acknowledged. Each message to a member carries the digest of the metadata, and the pause.
type crew struct {
	*tenure
	*replica
	peers    []peer // by id
	metas    meta.Metas
	pause    pause.Pause
	states   states.Report // as a leader
	statesOf uint64        // the version of the leader's report that this follower has; 0: none
}

func newCrew(g *ground) *crew {
	r := &replica{identity: identity{ground: g, disks: map[uint64]uint64{}, roster: roster{conf: &pb.ConfState{}, index: map[election.ID]int{}}}, hard: &pb.HardState{}}
	return &crew{tenure: &tenure{ground: g}, replica: r, metas: meta.New(g.cfg.Self.ID, g.cfg.Incarnation, g.cfg.Meta)}
}

// maxBackoff bounds the pause between two dials.
const maxBackoff = time.Second

// seatPeers makes a peer for every member of the roster except this.
func (c *crew) seatPeers() {
	old := c.peers
	c.statesOf = 0 // the leader's report may have members that were not listed here
	c.states.Changed()
	c.peers = make([]peer, 0, len(c.roster.Seats))
	for _, s := range c.roster.Seats {
		if s.ID == c.cfg.Self.ID {
			continue
		}
		p := peer{rank: election.Rank{ID: s.ID}}
		if i := slices.IndexFunc(old, func(p peer) bool { return p.rank.ID == s.ID }); i >= 0 {
			p = old[i]
			old = slices.Delete(old, i, i+1)
		}
		p.number, p.address, p.observer, p.guest = max(s.Number, p.number), s.Address, s.Observer, false
		if p.elsewhere == p.address {
			p.elsewhere, p.detour = "", false
		}
		c.peers = append(c.peers, p)
	}
	for _, p := range old {
		switch {
		case !p.guest:
		case p.number == 0 || p.number >= c.roster.Next:
			c.peers = append(c.peers, p)
		default:
			c.do(election.Action{Kind: election.Hangup, To: p.rank.ID})
		}
	}
	slices.SortStableFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
}

func (c *crew) peer(id election.ID) *peer {
	for i := range c.peers {
		if c.peers[i].rank.ID == id {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *crew) peerBy(number uint64) *peer {
	for i := range c.peers {
		if c.peers[i].number == number && number != 0 {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *crew) dial(p *peer) {
	p.redial = time.Time{}
	if !p.link && !p.dialing {
		p.dialing = true
		c.do(election.Action{Kind: election.Dial, To: p.rank.ID, Address: p.dialedAt()})
	}
}

// usable reports whether a link exists and works. A link on which nothing has arrived for T, though
// an answer is due, is closed and made again.
func (c *crew) usable(p *peer) bool {
	if !p.link {
		return false
	}
	if p.asked.IsZero() {
		p.asked = c.now
	}
	if c.now.Sub(p.asked) < c.t {
		return true
	}
	p.asked = time.Time{}
	c.hangUp(p)
	return false
}

// hangUp closes the link to a silent member, and dials it again.
func (c *crew) hangUp(p *peer) {
	p.link, p.dialing = false, false
	c.do(election.Action{Kind: election.Hangup, To: p.rank.ID})
	if p.guest {
		c.sendOff(p.rank.ID)
		return
	}
	c.observe(p, election.StateUnreachable)
	c.unreachable(p)
	c.dial(p)
}

func (c *crew) unreachable(p *peer) {
	if c.node != nil && p.number != 0 {
		c.node.ReportUnreachable(p.number)
	}
}

// delayRedial schedules a dial of an unreachable member after a pause, which grows until a message
// arrives from it. In a search the pause never ends: the search makes the link itself once both
// run.
func (c *crew) delayRedial(p *peer) {
	if c.still {
		p.redial = c.now.Add(math.MaxInt64)
		return
	}
	if p.backoff = min(max(2*p.backoff, c.timing.Heartbeat/2), maxBackoff); p.backoff == 0 {
		p.backoff = maxBackoff
	}
	p.redial = c.now.Add(p.backoff/2 + c.between(p.backoff/2))
}

// send sends a message to a member whose link exists or is being made.
func (c *crew) send(p *peer, m *election.Message) {
	if !p.link && !p.dialing {
		return // it was unreachable just now
	}
	m.From, m.To, m.Election, m.MetaDigest = c.cfg.Self.ID, p.rank.ID, c.cfg.Election, c.metas.Digest()
	m.Pause = c.pause.Report(c.now)
	c.do(election.Action{Kind: election.Send, To: p.rank.ID, Message: m})
}

// Paused returns when a pause ends, zero without a pause, and the member that keeps leadership
// until then.
func (c *crew) Paused() (time.Time, election.ID) { return c.pause.Until(c.now) }

// PauseVersion is higher after each change of the pause.
func (c *crew) PauseVersion() uint64 { return c.pause.Version() }

// acknowledged returns when the latest round was sent that a majority has acknowledged, in this
// member's stamps; 0: none. While the configuration changes, it takes a majority of both the old
// and the new.
func (c *crew) acknowledged() int64 {
	least := int64(0)
	for i, voters := range c.roster.majorities() {
		stamps := make([]int64, 0, MaxMembers)
		for _, n := range voters {
			switch p := c.peerBy(n); {
			case n == c.me.Number:
				stamps = append(stamps, int64(c.sent.Sub(c.origin))+1)
			case p != nil:
				stamps = append(stamps, p.acked)
			default:
				stamps = append(stamps, 0)
			}
		}
		slices.Sort(stamps)
		at := stamps[(len(stamps)-1)/2]
		if i == 0 || at < least {
			least = at
		}
	}
	return least
}

// post sends a message of raft.
func (c *crew) post(m *pb.Message) {
	kind, ok := kindOf(m.GetType())
	p := c.peerBy(m.GetTo())
	if !ok || p == nil {
		return
	}
	if kind == kindVote || kind == kindPreVote {
		if p.request = m; p.link && !c.usable(p) {
			return
		}
	}
	data, err := proto.Marshal(m)
	if err != nil || len(data) > election.MaxData {
		return
	}
	c.send(p, &election.Message{Kind: kind, Token: election.Token{Epoch: m.GetTerm()}, Data: data})
	if m.GetType() == pb.MsgSnap {
		c.node.ReportSnapshot(p.number, raft.SnapshotFinish)
	}
}

// beatData returns to, from, commit and flags as unsigned varints, followed by the commitment if
// the leadership has any.
func (c *crew) beatData(p *peer, commit uint64) []byte {
	flags, sworn := uint64(0), c.Sworn(c.term())
	if c.view.Epoch == c.term() || c.drains {
		flags = flagInForce
	}
	if sworn == (attest.Commitment{}) {
		return varints(p.number, c.me.Number, commit, flags)
	}
	return append(varints(p.number, c.me.Number, commit, flags|flagSworn), sworn[:]...)
}

func (c *crew) readBeat(p *peer, m *election.Message) (b beat, commit uint64, ok bool) {
	v, ok := readVarints(m.Data, 4)
	if !ok || v[0] != c.me.Number || v[1] != p.number || v[1] == 0 || m.Token.Epoch == 0 {
		return b, 0, false
	}
	rank := p.rank
	if m.Token.Leader.ID == p.rank.ID {
		rank = m.Token.Leader
	}
	b = beat{from: p.number, rank: rank, term: m.Token.Epoch, stamp: m.Stamp, inForce: v[3]&flagInForce != 0}
	if v[3]&flagSworn != 0 && len(m.Data) > attest.Size {
		b.commitment = attest.Commitment(m.Data[len(m.Data)-attest.Size:])
	}
	return b, v[2], true
}

// learnNumber takes peers' numbers from their heartbeats while a newcomer's log is still empty.
func (c *crew) learnNumber(p *peer, m *election.Message) {
	if len(c.roster.Seats) > 0 || m.Kind != election.Beat {
		return
	}
	if v, ok := readVarints(m.Data, 4); ok && v[0] == c.me.Number && v[1] != 0 && v[1] <= election.MaxEpoch && c.peerBy(v[1]) == nil {
		p.number = v[1]
	}
}

// What follows applies priorities that a user sets for a running member. They are in the log, and hold
// for the process that ran then; the next process has its own priority again.

// process returns the incarnation of a running member, as far as this member knows; 0: it does not
// run.
func (c *crew) process(id election.ID) uint64 {
	if id == c.cfg.Self.ID {
		return c.cfg.Incarnation
	}
	if p := c.peer(id); p != nil {
		return p.incarnation
	}
	return 0
}

// rerank applies the priorities of the log.
func (c *crew) rerank() {
	for i := range c.roster.Seats {
		s := &c.roster.Seats[i]
		if s.Process == 0 || c.process(s.ID) != s.Process {
			continue
		}
		rank := &c.cfg.Self
		if p := c.peer(s.ID); p != nil {
			rank = &p.rank
		}
		if rank.Priority != s.Priority {
			rank.Priority = s.Priority
			c.note("ranks", s.ID, c.view, fmt.Sprintf("by %d now", s.Priority))
		}
	}
}

// silent reports whether a member has not acknowledged a heartbeat of this term for T.
func (c *crew) silent(p *peer) bool {
	return p.acked == 0 || time.Duration(c.stamp()-p.acked) > c.t
}

// Earlier returns the longest T of earlier processes under which members may still hold something
// for an earlier leader, or 0 if it is not longer than this process's T. It is for a leader that is
// in force: its majority, which has acknowledged, and an earlier leader's majority have a member in
// common.
func (c *crew) Earlier() time.Duration {
	longest := c.me.Promise
	for i := range c.peers {
		if p := &c.peers[i]; p.acked != 0 {
			longest = max(longest, p.promise)
		}
	}
	if longest <= c.t {
		return 0
	}
	return longest
}

// requested returns the request for a member's vote in the present election; nil: there is none.
func (c *crew) requested(p *peer) *pb.Message {
	if m := p.request; m != nil {
		switch st := c.status(); {
		case st.RaftState == raft.StatePreCandidate && m.GetType() == pb.MsgPreVote && m.GetTerm() == st.GetTerm()+1,
			st.RaftState == raft.StateCandidate && m.GetType() == pb.MsgVote && m.GetTerm() == st.GetTerm():
			return m
		}
	}
	return nil
}

// Knows reports whether id is a member.
func (c *crew) Knows(id election.ID) bool {
	p := c.peer(id)
	return id == c.cfg.Self.ID || p != nil && !p.guest
}

func (c *crew) linkDown(id election.ID) {
	p := c.peer(id)
	if p == nil {
		return
	}
	if p.guest {
		c.sendOff(id)
		return
	}
	p.link, p.dialing = false, false
	c.unreachable(p)
	if p.mute && !c.still { // a process that has yet to join closes all links at once
		c.delayRedial(p)
	} else {
		c.dial(p)
	}
}

// tellCommitted sends the commit index and the eligibility of this member to all peers if no leader could send it to them.
func (c *crew) tellCommitted(own election.Eligibility) {
	if c.view.Defined() || c.term() != 0 || !c.Settled() {
		return
	}
	index := c.applied // raft may have a higher index, with entries still on their way to the disk
	term, err := c.storage.Term(index)
	if err != nil {
		return
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link && p.number != 0 && !p.barred {
			c.send(p, &election.Message{Kind: kindCommitted, Eligibility: own.Said(), Data: varints(index, term)})
		}
	}
}

// The log records where each member listens, and only a leader can change it. When members move
// while none leads, a member also uses the claim of a process that presents a member's number and
// disk and listens elsewhere. That address is only dialed, in turn with the address of the log. The
// dial itself shows which member answers.

// sight records an address, besides that of the log, at which a member may listen.
func (c *crew) sight(id election.ID, number uint64, address string) {
	p := c.peer(id)
	if p == nil || p.guest || p.number != number || address == "" || !election.Printable(address, election.MaxAddress) {
		return
	}
	p.elsewhere, p.detour = "", false
	if address == p.address {
		return
	}
	p.elsewhere, p.detour = address, true
	c.note("may have moved", id, election.Token{}, address)
	c.dial(p)
}

// dialedAt returns the address at which to dial a member next; empty: the driver has it.
func (p *peer) dialedAt() string {
	switch {
	case p.elsewhere != "" && p.detour:
		p.strayed = true
		return p.elsewhere
	case p.elsewhere != "", p.strayed:
		p.strayed = false
		return p.address
	}
	return ""
}

// configured takes over addresses of the configured list, which may be newer than the log's.
func (c *crew) configured() {
	for _, m := range c.cfg.Members {
		if p := c.peer(m.ID); p != nil && m.Address != p.address {
			p.elsewhere = m.Address
		}
	}
}

// listens returns where a member of the roster listens, as far as this member knows.
func (c *crew) listens(s *seat) string {
	if s.ID == c.cfg.Self.ID && c.cfg.Address != "" {
		return c.cfg.Address
	}
	if p := c.peer(s.ID); p != nil && p.elsewhere != "" && !c.view.Defined() {
		return p.elsewhere
	}
	return s.Address
}

// A member's list is as old as its log. A member that was away while others joined does not have
// them on its list, and one of them may lead by now, or need its vote. So a member without a leader
// accepts a process that is not on its list, as a guest. As in the Raft dissertation (4.1), a
// guest's messages as a leader or a candidate are judged only by its term and its log. It counts in
// no majority and is not dialed. Its leadership is announced once the log, which the guest brings,
// lists it as a member. Its card proves that it belongs to this cluster, by the list that the
// cluster began with and by a raft number that this member has not seen assigned.

// mayVisit reports whether a process that is not on the list here may connect.
func (c *crew) mayVisit(id election.ID) bool {
	if c.halted || c.node != nil && !c.me.Settled {
		return false
	}
	guests := 0
	for i := range c.peers {
		if c.peers[i].guest {
			guests++
		}
	}
	return guests < MaxMembers && (!c.view.Defined() && c.term() == 0 || c.single() || slices.Contains(c.roster.Gone, id))
}

// single reports whether this member is the only one on its list. It may be the disk of a cluster that
// grew from one member, emptied: the others know that, and it dials none of them.
func (c *replica) single() bool { return len(c.roster.Seats) == 1 }

// visit admits a guest.
func (c *crew) visit(rank election.Rank) *peer {
	if !c.started || rank.ID == c.cfg.Self.ID || !c.mayVisit(rank.ID) {
		c.do(election.Action{Kind: election.Hangup, To: rank.ID})
		return nil
	}
	c.note("admits", rank.ID, c.view, "it may be newer than this member's log")
	c.peers = append(c.peers, peer{rank: rank, guest: true})
	slices.SortStableFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
	return c.peer(rank.ID)
}

// sendOff removes a guest.
func (c *crew) sendOff(id election.ID) {
	c.peers = slices.DeleteFunc(c.peers, func(p peer) bool { return p.guest && p.rank.ID == id })
}

// dueGuests disconnects guests that have not identified themselves within T.
func (c *crew) dueGuests() {
	var late []election.ID
	for i := range c.peers {
		if p := &c.peers[i]; p.guest && p.number == 0 && c.now.Sub(p.since) >= c.t {
			late = append(late, p.rank.ID)
		}
	}
	for _, id := range late {
		c.hangUpGuest(id)
	}
}

// listed reports whether a member may be announced as the leader: it is on the list under the
// number that it leads with. A newcomer without a log accepts all members that it was given.
func (c *crew) listed(p *peer) bool {
	return c.roster.by(p.number) != nil || len(c.roster.Seats) == 0 && !p.guest
}

// hangUpGuest disconnects a guest.
func (c *crew) hangUpGuest(id election.ID) {
	if p := c.peer(id); p != nil {
		c.hangUp(p)
	}
}

func kindOf(t pb.MessageType) (election.MessageKind, bool) {
	for k, of := range raftKinds {
		if of == t {
			return k, true
		}
	}
	return "", false // heartbeats are sent as beats and acks
}

// What follows monitors the assumption that no two clocks differ in rate by more than the drift.
// Heartbeats carry the time of the leader, and acks the time of the follower. A message can be
// delayed by the network but never early. So the least delayed message of a window shows the offset
// between the clocks, except for what the fastest route has changed since, which t_max bounds.

// pace compares a peer's clock with this member's clock, window by window.
type pace struct {
	began   time.Time     // of the window; zero: nothing is known
	least   time.Duration // the smallest lead of this clock in this window
	last    time.Duration // in the window before
	before  bool          // there was a window before
	strikes int           // consecutive windows with more drift than allowed, in the same direction
	warned  bool
}

// while is the length of a window.
const while = 30 * time.Second

// compare records the time its that a peer's clock showed when a message was sent.
func (c *crew) compare(p *peer, its int64) {
	k, ahead := &p.pace, time.Duration(c.stamp()-its)
	if k.began.IsZero() {
		k.began, k.least = c.now, ahead
		return
	}
	k.least = min(k.least, ahead)
	span := c.now.Sub(k.began)
	if span < while {
		return
	}
	if k.before {
		c.judge(p, k.least-k.last, span)
	}
	k.began, k.last, k.least, k.before = c.now, k.least, ahead, true
}

// judge warns, once, about a clock whose rate differs by more than the configured drift. A
// difference in a single window is a jump, not a rate.
func (c *crew) judge(p *peer, gained, span time.Duration) {
	k := &p.pace
	far := max(gained, -gained)
	switch {
	case far <= c.timing.TMax+time.Duration(float64(span)*c.algorithm.drift):
		k.strikes = 0
	case gained > 0:
		k.strikes = max(k.strikes, 0) + 1
	default:
		k.strikes = min(k.strikes, 0) - 1
	}
	if k.warned || k.strikes > -strikes && k.strikes < strikes {
		return
	}
	k.warned = true
	how := "slower"
	if gained < 0 {
		how = "faster"
	}
	c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("the clock of member %s runs %.1f %% %s than this member's, and quorum.Drift allows %.1f %%: while it does, one leader is not sure; fix that member's clock, or this one's",
		p.rank.ID, 100*float64(far)/float64(span), how, 100*c.algorithm.drift)})
}

// strikes is how many consecutive windows it takes for a warning.
const strikes = 2

// forgetPaces discards all measurements, after a clock jumped or a process was stopped.
func (c *crew) forgetPaces() {
	for i := range c.peers {
		c.peers[i].pace = pace{warned: c.peers[i].pace.warned}
	}
}
