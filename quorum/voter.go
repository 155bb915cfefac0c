package quorum

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

// voter is what a member has promised, and when it asks for votes itself. A member that has
// received a heartbeat neither grants a vote nor asks for votes until T later: a lease relies on
// that.
type voter struct {
	patience   time.Time // until then it neither grants nor asks for votes; zero: it has ended
	promised   uint64    // the term of the leader that has the promise; 0: an earlier process's
	campaignAt time.Time // when it asks for votes; zero: not at all
	lowerAt    time.Time // when a longer promise of an earlier process leaves the disk; zero: not yet, or there is none
	follows    beat      // the last heartbeat that counted
	asks       bool      // it is asking for votes
	newer      bool      // since the last leader, it has refused a vote to a member with an older log
	interim    bool      // it asks for votes to pass its log on, not to lead
	warnedBack uint64    // the term in which it last warned of its own disk
}

// beat is a leader's heartbeat.
type beat struct {
	from    uint64
	rank    election.Rank // when it was elected
	term    uint64
	stamp   int64 // in the leader's time: when it was sent
	inForce bool  // its leadership is in force
	due     bool  // its acknowledgement waits for the disk

	commitment attest.Commitment // of its guard; zero: it has no guard
}

// patient reports whether this member may not take part in an election now.
func (c *Core) patient() bool {
	return !c.patience.IsZero() || c.term() != 0 && !c.over
}

// beaten handles a heartbeat of a leader.
func (c *Core) beaten(p *peer, b beat, commit uint64) {
	if b.term >= c.status().GetTerm() && commit > c.lastIndex() {
		c.goneBack(p)
		return
	}
	if c.Over(b.term) {
		return // its sender died while it was on its way
	}
	st := c.status()
	if b.term < st.GetTerm() && c.busy() {
		return // raft would answer its leader each time, once the disk has answered
	}
	if known := st.GetTerm() == b.term && st.Lead == b.from && commit <= st.GetCommit(); !known { // otherwise raft would only answer
		if !c.stepRaft(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &b.from, To: &c.me.Number, Term: &b.term, Commit: &commit}) {
			return
		}
		st = c.status()
	}
	if st.GetTerm() != b.term || st.Lead != b.from {
		return
	}
	c.patience, c.promised = c.now.Add(c.t), b.term
	c.owesNoMore()
	c.campaignAt, c.standAt = time.Time{}, time.Time{}
	c.follows, c.newer, c.interim = b, false, false
	c.Follows(b.term, b.commitment)
	for i := range c.peers {
		c.peers[i].deferred = nil
	}
	c.follows.due = true
	c.caughtUp()
}

// sign writes how long this member's promises last, before it gives any: that is this process's T,
// and the next process may have a shorter T. The longer duration stays on disk for as long as
// anything may be held under an earlier process's promise.
func (c *Core) sign() {
	if c.me.Promise >= c.t {
		return
	}
	c.me.Promise = c.t
	if c.node != nil && !c.fresh {
		c.unsigned = true
		c.writeSelf(func() { c.unsigned = false })
	}
}

// Earlier returns the longest T of earlier processes under which members may still hold something
// for an earlier leader, or 0 if it is not longer than this process's T. It is for a leader that is
// in force: its majority, which has acknowledged, and an earlier leader's majority have a member in
// common.
func (c *Core) Earlier() time.Duration {
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

// owesNoMore records that no promise of an earlier process is in force: this member has waited long
// enough, or follows a leader that a majority has elected. Work under such a promise may be held
// for 2·T and a heartbeat more, by the earlier times. For that long the promise stays on disk,
// however often this member restarts, and its acknowledgements state it.
func (c *Core) owesNoMore() {
	if c.me.Promise > c.t && c.lowerAt.IsZero() {
		c.lowerAt = c.now.Add(3 * c.me.Promise)
	}
}

// lower leaves only the promise of this process on disk.
func (c *Core) lower() {
	c.lowerAt = time.Time{}
	c.me.Promise, c.selfDue = c.t, true
}

// writeSelf writes the identity of the disk.
func (c *Core) writeSelf(then func()) {
	c.write([][]byte{record(recordSelf, encode(c.me))}, false, then)
}

// caughtUp acknowledges the last heartbeat once its term is on disk.
func (c *Core) caughtUp() {
	b := &c.follows
	if !b.due || c.hard.GetTerm() != b.term || c.node == nil || c.unsigned {
		return
	}
	st := c.status()
	p := c.peerBy(b.from)
	if b.due = false; p == nil || st.GetTerm() != b.term || st.Lead != b.from {
		return
	}
	c.send(p, election.Message{Kind: election.Ack, Token: election.Token{Epoch: b.term, Leader: p.rank}, Stamp: b.stamp,
		Eligibility: c.Standing(), Data: c.ackData(p)})
	if c.view.Defined() && c.view.Epoch < b.term {
		c.unview(election.CauseSuperseded)
	}
	if b.inForce && c.listed(p) {
		c.follow(election.Token{Epoch: b.term, Leader: b.rank})
	}
}

// follow announces a leadership that is in force, of any member.
func (c *Core) follow(t election.Token) {
	if t.Epoch <= c.view.Epoch && c.view.Defined() || t.Epoch < c.held.Epoch {
		return
	}
	if t.Leader.ID != c.cfg.Self.ID && c.gone == t.Epoch {
		return // its end has been announced
	}
	c.unview(election.CauseSuperseded)
	c.view, c.held = t, t
	c.resort = c.resort && t.Leader.ID == c.cfg.Self.ID
	if c.resigned != 0 && t.Epoch > c.resigned {
		c.outlived = true
	}
	what := "follows"
	if t.Leader.ID == c.cfg.Self.ID {
		c.pause.Hold(c.now, c.cfg.Self.ID)
		what = "leads"
	}
	c.note(what, t.Leader.ID, t, "")
	c.do(election.Action{Kind: election.NotifyElected, Token: t})
}

// unview announces that the present leadership has ended.
func (c *Core) unview(cause election.Cause) {
	if !c.view.Defined() {
		return
	}
	t := c.view
	c.view = election.Token{}
	if cause != election.CauseSilent || t.Leader.ID == c.cfg.Self.ID {
		c.gone = t.Epoch // otherwise it may still exist
	}
	if c.outlived {
		c.resigned, c.outlived = 0, false
	}
	c.note("loses", t.Leader.ID, t, string(cause))
	c.do(election.Action{Kind: election.NotifyLost, Token: t, Cause: cause})
}

// dueVoter ends the promise when its time is over, and asks for votes when that is due.
func (c *Core) dueVoter() {
	if c.passed(c.patience) {
		c.release(election.CauseSilent)
	}
	if c.passed(c.lowerAt) {
		c.lower()
	}
	if c.passed(c.campaignAt) {
		c.campaign()
	}
	if c.passed(c.standAt) {
		c.standAt = time.Time{}
		c.disk.Forgive()
		c.standAgain()
	}
}

// release ends the promise: its leader cannot be in force any more.
func (c *Core) release(cause election.Cause) {
	c.patience, c.promised = time.Time{}, 0
	if c.node == nil {
		return
	}
	c.owesNoMore()
	if p := c.peerBy(c.follows.from); p != nil && p.link && cause == election.CauseSilent && c.now.Sub(p.heard) >= c.t {
		c.hangUp(p)
	}
	c.forget()
	if c.view.Leader.ID != c.cfg.Self.ID {
		c.unview(cause)
	}
	if c.term() == 0 {
		if cause == election.CauseCrashed { // each member learned of it by its own dial, at a different moment
			c.askAfter(0)
		} else {
			c.awaitVotes()
		}
		if c.standAt.IsZero() {
			c.standAt = c.now.Add(2 * c.t)
		}
	}
	for i := range c.peers {
		p := &c.peers[i]
		if m := p.deferred; m != nil {
			p.deferred = nil
			c.stepRaft(m)
		}
	}
}

// forget makes raft forget its leader, so that it may vote in the same term.
func (c *Core) forget() {
	if st := c.status(); st.RaftState == raft.StateFollower && st.Lead != raft.None {
		_ = c.node.ForgetLeader() // it refuses only on a follower that reads by lease
	}
}

// awaitVotes makes this member ask for votes soon, at a random moment: members that lose their
// leader at the same time might otherwise always ask in step.
func (c *Core) awaitVotes() { c.askAfter(c.between(c.t / 150)) }

// askAfter makes this member ask for votes after a while; the highest-ranked candidate asks first.
func (c *Core) askAfter(while time.Duration) {
	if !c.eligible() {
		return
	}
	turn := 0
	for i := range c.peers {
		p := &c.peers[i]
		gone := p.down || p.number == c.follows.from && c.Over(c.follows.term)
		if p.rank.Above(c.cfg.Self) && !gone && c.roster.votes(p.number) && p.aside == election.Eligible {
			turn++
		}
	}
	c.campaignAt = c.now.Add(time.Duration(turn)*c.t/20 + while)
}

// campaign asks for votes.
func (c *Core) campaign() {
	c.campaignAt = time.Time{}
	if c.patient() || !c.eligible() && !c.interim || c.node == nil {
		return
	}
	c.campaignAt = c.contestEnds()
	c.note("asks", election.None, election.Token{Epoch: c.status().GetTerm() + 1}, "it knows no leader")
	_ = c.node.Campaign() // it refuses a member that cannot lead, which eligible has checked
}

// requested returns the request for a member's vote in the present election; nil: there is none.
func (c *Core) requested(p *peer) *pb.Message {
	if m := p.request; m != nil && c.node != nil {
		switch st := c.status(); {
		case st.RaftState == raft.StatePreCandidate && m.GetType() == pb.MsgPreVote && m.GetTerm() == st.GetTerm()+1,
			st.RaftState == raft.StateCandidate && m.GetType() == pb.MsgVote && m.GetTerm() == st.GetTerm():
			return m
		}
	}
	return nil
}

// vote handles a request for a vote, which waits while a promise lasts.
func (c *Core) vote(p *peer, m *pb.Message) {
	forced := bytes.Equal(m.GetContext(), []byte("CampaignTransfer"))
	if c.term() != 0 && !c.over {
		return // it leads, as far as it can detect
	}
	if c.pause.Bars(c.now, p.rank.ID, c.Knows) && m.GetType() != pb.MsgVote {
		return // the candidate has not received the pause yet; this member reports it within T
	}
	if !forced && !c.patience.IsZero() {
		p.deferred = m
		return
	}
	c.newer = c.newer || c.older(m)
	if forced && !c.patience.IsZero() && c.promised != 0 && c.promised < m.GetTerm() {
		c.release(election.CauseResigned)
	}
	if c.stepRaft(m) && m.GetType() == pb.MsgVote && !c.campaignAt.IsZero() {
		c.campaignAt = c.contestEnds()
	}
}

// resignedBy handles the report of a leader that its leadership has ended permanently.
func (c *Core) resignedBy(p *peer, m *election.Message) {
	if t := m.Token.Epoch; c.promised == t && c.follows.from == p.number {
		c.release(election.CauseResigned)
		if !c.campaignAt.IsZero() && m.Claimant != raft.None && m.Claimant != c.me.Number {
			c.campaignAt = c.campaignAt.Add(2 * c.timing.TMax) // it has a different successor
		}
	}
}

// crashed handles the end of a member's process. If it is proven, members stop waiting for the
// lease of that leader.
func (c *Core) crashed(p *peer, proven bool) {
	if c.view.Leader.ID == p.rank.ID {
		c.unview(election.CauseCrashed)
	}
	if proven && c.promised != 0 && c.follows.from == p.number {
		c.release(election.CauseCrashed)
	}
}

// eligible reports whether this member may be elected, as far as it can detect.
func (c *Core) eligible() bool {
	return c.node != nil && c.me.Settled && slices.Contains(c.roster.conf.GetVoters(), c.me.Number) && c.stands()
}

// goneBack warns that the leader's commit index is beyond this member's log: this disk had more.
func (c *Core) goneBack(p *peer) {
	if c.warnedBack != c.seen {
		c.warnedBack = c.seen
		c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("member %s says that this member's log has held more than it does: its disk has gone back in time; remove this member, and add it again with an empty data directory", p.rank.ID)})
	}
}

// contestEnds returns when no vote of this election can arrive any more: votes are requested twice,
// and are on disk before they are granted.
func (c *Core) contestEnds() time.Time { return c.now.Add(2*c.t + c.apart()) }

// apart returns the random pause, of up to T, which keeps candidates without a majority from asking
// again at the same moment. In a search it depends on the number: with equal pauses members would
// always ask together.
func (c *Core) apart() time.Duration {
	if c.still {
		return time.Duration(c.me.Number) * c.t / 6
	}
	return c.between(c.t)
}

// older reports whether a candidate's log ends before this member's, so that it gets no vote.
func (c *Core) older(m *pb.Message) bool {
	last := c.lastIndex()
	term, err := c.storage.Term(last)
	return err == nil && (m.GetLogTerm() < term || m.GetLogTerm() == term && m.GetIndex() < last)
}
