package quorum

import (
	"bytes"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// beaten handles a heartbeat of a leader.
func (c *Core) beaten(p *peer, m *election.Message, b beat, commit uint64) {
	st := c.status()
	if b.term >= st.GetTerm() && commit > c.lastIndex() {
		c.goneBack(p)
		return
	}
	if c.Over(b.term) {
		return // its sender died while it was on its way
	}
	if b.term < st.GetTerm() && c.busy() {
		return // raft would answer its leader each time, once the disk has answered
	}
	if known := st.GetTerm() == b.term && st.Lead == b.from && commit <= st.GetCommit(); !known { // otherwise raft would only answer
		if !c.stepRaft(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(b.from), To: &c.me.Number, Term: new(b.term), Commit: new(commit)}) {
			return
		}
		st = c.status()
	}
	if st.GetTerm() != b.term || st.Lead != b.from {
		return
	}
	if c.follows.term != b.term {
		c.dropReport()
		c.observe(p, election.StateUp) // the last leader may have reported another state
	}
	c.takeReport(p, m)
	c.patience, c.promised = c.now.Add(c.t), b.term
	c.owesNoMore()
	c.campaignAt, c.standAt = time.Time{}, time.Time{}
	c.follows, c.interim = b, false
	c.Follows(b.term, b.commitment)
	for i := range c.peers {
		c.peers[i].deferred, c.peers[i].outdated = nil, false
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
	c.me.Promise, c.unsigned = c.t, true
	c.writeSelf(func() { c.unsigned = false })
}

// writeSelf writes the identity of the disk.
func (c *Core) writeSelf(then func()) {
	c.write([][]byte{record(recordSelf, encode(c.me))}, false, then)
}

// caughtUp acknowledges the last heartbeat once its term is on disk.
func (c *Core) caughtUp() {
	b := &c.follows
	if !b.due || c.hard.GetTerm() != b.term || c.unsigned {
		return
	}
	st := c.status()
	p := c.peerBy(b.from)
	if b.due = false; p == nil || st.GetTerm() != b.term || st.Lead != b.from {
		return
	}
	c.send(p, &election.Message{Kind: election.Ack, Token: election.Token{Epoch: b.term, Leader: p.rank}, Stamp: b.stamp,
		Version: c.statesOf, Eligibility: c.Standing(), Data: c.ackData(p.number)})
	if c.view.Epoch < b.term {
		c.unview(election.CauseSuperseded)
	}
	if b.inForce && c.listed(p) {
		c.follow(election.Token{Epoch: b.term, Leader: b.rank})
	}
}

// follow announces a leadership that is in force, of any member.
func (c *Core) follow(t election.Token) {
	if !c.announce(t) {
		return
	}
	c.resort = c.resort && c.leads()
}

// dueVoter ends the promise when its time is over, and asks for votes when that is due.
func (c *Core) dueVoter() {
	if c.passed(c.patience) {
		c.release(election.CauseSilent)
	}
	if c.passed(c.lowerAt) { // only the promise of this process is left on disk
		c.lowerAt = time.Time{}
		c.me.Promise, c.selfDue = c.t, true
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
	c.dropReport()
	if c.node == nil {
		return
	}
	c.owesNoMore()
	if p := c.peerBy(c.follows.from); p != nil && p.link && cause == election.CauseSilent && c.now.Sub(p.heard) >= c.t {
		c.hangUp(p)
	}
	c.forget()
	if !c.leads() {
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
			c.vote(p, m)
		}
	}
}

// vote handles a request for a vote, which waits while a promise lasts.
func (c *Core) vote(p *peer, m *pb.Message) {
	forced := bytes.Equal(m.GetContext(), []byte("CampaignTransfer"))
	if c.serves() {
		return // it leads, as far as it can detect
	}
	if c.pause.Bars(c.now, p.rank.ID, c.Knows) && m.GetType() != pb.MsgVote {
		return // the candidate has not received the pause yet; this member reports it within T
	}
	if !forced && !c.patience.IsZero() {
		p.deferred = m
		return
	}
	older := c.older(m)
	if older {
		c.outdate(p)
	}
	if c.promised != 0 && c.promised < m.GetTerm() { // then the request is forced: a promise is in force
		c.release(election.CauseResigned)
	}
	if c.stepRaft(m) && m.GetType() == pb.MsgVote && !older && !c.campaignAt.IsZero() {
		c.campaignAt = c.contestEnds()
	}
}

// resignedBy handles the report of a leader that its leadership has ended permanently.
func (c *Core) resignedBy(p *peer, m *election.Message) {
	if t := m.Token.Epoch; c.promised == t && c.follows.from == p.number {
		if cause := machine.EndOf(m); cause != election.CauseResigned && c.view.Epoch == t {
			c.unviewFor(cause, true, string(cause)+": it announced its end")
		}
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
