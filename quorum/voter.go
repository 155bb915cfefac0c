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

// voter is what a member has promised, and when it asks for votes itself. A member
// that has heard a beat grants no vote and asks for none until T after it: that is
// what a lease counts on.
type voter struct {
	patience   time.Time // until then no vote is granted nor asked for; zero: it has ended
	promised   uint64    // the term of the leader that has the promise; 0: an earlier life's
	campaignAt time.Time // when it asks for votes; zero: it does not
	lowerAt    time.Time // when a longer promise of an earlier process leaves the disk; zero: it waits, or there is none
	follows    beat      // the last one that counted
	asks       bool      // it is asking for votes
	newer      bool      // it has refused a vote to one whose log is older, since anyone led
	interim    bool      // it asks for votes to pass its log on, not to lead
	warnedBack uint64    // the term in which it has warned of its own disk
}

// beat is a leader's word that it lives.
type beat struct {
	from    uint64
	rank    election.Rank // as it was elected
	term    uint64
	stamp   int64 // in the leader's time: when it left
	inForce bool  // its leadership is in force
	due     bool  // it awaits the disk, to be answered

	commitment attest.Commitment // of its guard; none: it has no guard
}

// patient reports whether this member may take no part in an election now.
func (c *Core) patient() bool {
	return !c.patience.IsZero() || c.term() != 0 && !c.over
}

// beaten takes in a beat of a leader.
func (c *Core) beaten(p *peer, b beat, commit uint64) {
	if b.term >= c.status().GetTerm() && commit > c.lastIndex() {
		c.goneBack(p)
		return
	}
	if c.Over(b.term) {
		return // it was on its way when its sender died
	}
	st := c.status()
	if b.term < st.GetTerm() && c.busy() {
		return // raft would tell its leader so, each time, once the disk has answered
	}
	if known := st.GetTerm() == b.term && st.Lead == b.from && commit <= st.GetCommit(); !known { // else raft would only answer
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

// sign has on disk how long this member's promises last, before it gives any: T is what
// this process was started with, and the next one may have a shorter one. The longer one
// stays for as long as anything may be held that an earlier process's promise has allowed.
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

// Earlier is the longest T of earlier processes by which members may still hold something under
// an earlier leader, if it is longer than this process's T; else 0. It is for a leader that is
// in force: an earlier leader's majority and its own, which has acknowledged, have a member in common.
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

// owesNoMore takes note that no promise of an earlier process is in force: it has waited
// for long enough, or a majority has elected a leader that it follows. What was held by such a
// promise is held for 2·T and a heartbeat more, by the times of then: that long it stays on disk,
// however often this member starts again, and its acknowledgements state it.
func (c *Core) owesNoMore() {
	if c.me.Promise > c.t && c.lowerAt.IsZero() {
		c.lowerAt = c.now.Add(3 * c.me.Promise)
	}
}

// lower has the disk hold the promise of this process alone.
func (c *Core) lower() {
	c.lowerAt = time.Time{}
	c.me.Promise, c.selfDue = c.t, true
}

// writeSelf writes down who the disk belongs to.
func (c *Core) writeSelf(then func()) {
	c.write([][]byte{record(recordSelf, encode(c.me))}, false, then)
}

// caughtUp answers the last beat once its term is on disk.
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

// follow tells of a leadership that is in force, of this member or another.
func (c *Core) follow(t election.Token) {
	if t.Epoch <= c.view.Epoch && c.view.Defined() || t.Epoch < c.held.Epoch {
		return
	}
	if t.Leader.ID != c.cfg.Self.ID && c.gone == t.Epoch {
		return // it has been told that it is over
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

// unview tells that the leadership that held has ended.
func (c *Core) unview(cause election.Cause) {
	if !c.view.Defined() {
		return
	}
	t := c.view
	c.view = election.Token{}
	if cause != election.CauseSilent || t.Leader.ID == c.cfg.Self.ID {
		c.gone = t.Epoch // else it may turn out to be there
	}
	if c.outlived {
		c.resigned, c.outlived = 0, false
	}
	c.note("loses", t.Leader.ID, t, string(cause))
	c.do(election.Action{Kind: election.NotifyLost, Token: t, Cause: cause})
}

// dueVoter ends the promise when its time is over, and asks for votes when it is time.
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

// release ends the promise: the leader that had it can be in force no more.
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
		if cause == election.CauseCrashed { // all were told at different moments, each by its own dial
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

// forget has raft forget its leader, so that it may vote in the same term.
func (c *Core) forget() {
	if st := c.status(); st.RaftState == raft.StateFollower && st.Lead != raft.None {
		_ = c.node.ForgetLeader() // it says no on a follower alone that reads by lease
	}
}

// awaitVotes has this member ask for votes soon, at a moment of its own: what ends for all
// at one time might have them ask in step for ever.
func (c *Core) awaitVotes() { c.askAfter(c.between(c.t / 150)) }

// askAfter has this member ask for votes after a while; the highest-ranked of those that
// stand asks first.
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
	_ = c.node.Campaign() // it says no to who cannot, which eligible has found
}

// requested is the request for a member's vote in the election under way; nil: there is none.
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

// vote takes in a request for a vote. While a promise lasts it waits.
func (c *Core) vote(p *peer, m *pb.Message) {
	forced := bytes.Equal(m.GetContext(), []byte("CampaignTransfer"))
	if c.term() != 0 && !c.over {
		return // it leads, as far as it knows
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

// resignedBy hears that a leadership has ended, for ever: its leader says so itself.
func (c *Core) resignedBy(p *peer, m *election.Message) {
	if t := m.Token.Epoch; c.promised == t && c.follows.from == p.number {
		c.release(election.CauseResigned)
		if !c.campaignAt.IsZero() && m.Claimant != raft.None && m.Claimant != c.me.Number {
			c.campaignAt = c.campaignAt.Add(2 * c.timing.TMax) // another is to have it
		}
	}
}

// crashed: a member's process is gone; proven: enough so for a leader to be waited for no more.
func (c *Core) crashed(p *peer, proven bool) {
	if c.view.Leader.ID == p.rank.ID {
		c.unview(election.CauseCrashed)
	}
	if proven && c.promised != 0 && c.follows.from == p.number {
		c.release(election.CauseCrashed)
	}
}

// eligible reports whether this member may be elected, as far as it knows itself.
func (c *Core) eligible() bool {
	return c.node != nil && c.me.Settled && slices.Contains(c.roster.conf.GetVoters(), c.me.Number) && c.stands()
}

// goneBack: the leader knows that this member has had more on its disk.
func (c *Core) goneBack(p *peer) {
	if c.warnedBack != c.seen {
		c.warnedBack = c.seen
		c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("member %s says that this member's log has held more than it does: its disk has gone back in time; remove this member, and add it again with an empty data directory", p.rank.ID)})
	}
}

// contestEnds is when votes asked for now will not come any more: they are asked for
// twice, and are on disk before they are given.
func (c *Core) contestEnds() time.Time { return c.now.Add(2*c.t + c.apart()) }

// apart draws the pause, of up to T, by which members that have asked for votes in vain keep
// from asking at one moment again. In a search it is each one's own: members that wait as long
// as each other would ask at one moment for ever.
func (c *Core) apart() time.Duration {
	if c.still {
		return time.Duration(c.me.Number) * c.t / 6
	}
	return c.between(c.t)
}

// older reports whether a candidate's log ends before this member's: it gets no vote.
func (c *Core) older(m *pb.Message) bool {
	last := c.lastIndex()
	term, err := c.storage.Term(last)
	return err == nil && (m.GetLogTerm() < term || m.GetLogTerm() == term && m.GetIndex() < last)
}
