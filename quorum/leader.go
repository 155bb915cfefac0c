package quorum

import (
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/batuta-dev/batuta/election"
)

// leader is the state of a member that raft has made leader. It leads only while its lease is in
// force: from when it sent a round of heartbeats that a majority acknowledged, for T less the clock
// drift. A lease that has ended does not come back: the term is over.
type leader struct {
	term    uint64        // the term for which raft made it leader; 0: it is not
	rank    election.Rank // its rank when it was elected, which identifies the leadership
	settled bool          // an entry of this term is committed, and so is all before
	over    bool          // the lease of this term has ended or was released, permanently
	drains  bool          // leadership ends once the work has stopped
	to      uint64        // the member that leadership then passes to; 0: the best
	until   time.Time     // the end of the lease; zero: there is none
	sent    time.Time     // when the last round was sent
	beatAt  time.Time     // when the next is due
	yieldAt time.Time     // when a leadership that is over, or was never in force, ends its term

	transferAt time.Time // when to check again whether a better leader exists
	foundAt    time.Time // until then members that it has not reached are not reported as unreachable; zero: it is past
}

// turned handles a change of raft's state.
func (c *Core) turned() {
	st := c.node.BasicStatus()
	leads := st.RaftState == raft.StateLeader && c.hard.GetTerm() == st.GetTerm() // else its own vote is still on its way to the disk
	if asked := c.asks; asked && st.RaftState == raft.StateFollower && st.Lead == raft.None && !c.campaignAt.IsZero() {
		c.campaignAt = c.now.Add(c.t/10 + c.apart()) // a majority refused
	}
	c.asks = st.RaftState == raft.StateCandidate || st.RaftState == raft.StatePreCandidate
	switch {
	case leads && c.term() != st.GetTerm():
		c.elected(st.GetTerm())
	case !leads && c.term() != 0:
		c.deposed()
	}
	c.prolong()
}

// elected handles the votes of a majority. This member does not lead yet.
func (c *Core) elected(term uint64) {
	c.leader = leader{term: term, rank: c.cfg.Self, yieldAt: c.now.Add(3 * c.t), foundAt: c.now.Add(c.t)}
	c.campaignAt, c.standAt = time.Time{}, time.Time{}
	c.note("is elected", election.None, c.leadership(), "a majority has voted for it")
	c.dropReport()
	c.states.Changed()
	for i := range c.peers {
		c.peers[i].acked, c.peers[i].reported = 0, 0
	}
	c.sendBeats()
}

// deposed handles the loss of raft's leadership, by a higher term or a removal. The work may run
// until the lease ends, which rests on this member's promise as well as on its peers'.
func (c *Core) deposed() {
	if until := c.Guard(); !until.IsZero() {
		c.patience, c.promised = until, c.term()
		c.follows = beat{} // the end of its former leader does not end this promise
	}
	if c.leads() {
		c.unview(election.CauseSuperseded)
	}
	c.leader = leader{}
	if c.patience.IsZero() {
		c.awaitVotes()
		c.standAt = c.now.Add(2 * c.t)
	}
}

// sendBeats sends a round of heartbeats. The lease counts from now, before any answer.
func (c *Core) sendBeats() {
	c.sent, c.beatAt = c.now, c.now.Add(c.timing.Heartbeat)
	if !c.foundAt.IsZero() && !c.now.Before(c.foundAt) {
		c.foundAt = time.Time{}
		c.states.Changed()
	}
	commit := c.status().GetCommit()
	for i := range c.peers {
		c.peers[i].match = 0
	}
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if p := c.peerBy(id); p != nil {
			p.match = pr.Match
		}
	})
	for i := range c.peers {
		p := &c.peers[i]
		if p.guest || !c.usable(p) {
			continue
		}
		c.offerSeat(p)
		m := &election.Message{Kind: election.Beat, Token: c.leadership(), Stamp: c.stamp(),
			Draining: c.drains, Data: c.beatData(p, min(commit, p.match))}
		c.reportStates(p, m)
		c.send(p, m)
	}
	c.prolong()
}

// ackFrom handles the answer to a heartbeat.
func (c *Core) ackFrom(p *peer, m *election.Message, number uint64, promise time.Duration) {
	if c.term() == 0 || m.Token.Epoch != c.term() || number != p.number {
		return
	}
	if m.Stamp <= 0 || m.Stamp > c.stamp() {
		return // it answers a heartbeat that was not sent yet
	}
	if p.acked == 0 {
		c.states.Changed()
	}
	c.setAside(p, m.Eligibility)
	p.acked, p.promise, p.reported = max(p.acked, m.Stamp), promise, m.Version
	if !c.disk.Unusable() { // raft may have entries to send again
		c.stepRaft(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &p.number, To: &c.me.Number, Term: new(c.term())})
	}
	c.prolong()
}

// prolong computes the lease again, and begins the leadership once that is in force.
func (c *Core) prolong() {
	if !c.serves() {
		return
	}
	stamp := c.acknowledged()
	if stamp == 0 {
		return
	}
	until := c.origin.Add(time.Duration(stamp - 1)).Add(c.algorithm.Lease(c.t))
	if until.After(c.until) {
		c.until = until
	}
	if c.view.Epoch != c.term() {
		c.begin()
	}
}

// begin begins the leadership if its lease is in force and no entry of earlier terms is missing.
func (c *Core) begin() {
	if !c.settled || c.drains || !c.now.Before(c.until) {
		return
	}
	if !c.eligible() {
		if c.successor() != raft.None { // otherwise the log is still being sent, until yieldAt
			c.end(election.CauseResigned, "it was elected to pass its log on")
		}
		return
	}
	c.yieldAt = time.Time{}
	c.transferAt = c.now.Add(c.t)
	c.follow(c.leadership())
	c.sendBeats() // reports it to all members
}

// expire ends a leadership when its lease has ended, before any other work of a Step.
func (c *Core) expire() {
	if !c.passed(c.until) {
		return
	}
	cause := election.CauseSilent
	if c.now.Sub(c.last) >= c.algorithm.Lease(c.t)/2 {
		cause = election.CauseStalled
	}
	c.end(cause, "its lease has ended")
	if cause == election.CauseSilent {
		c.hangUpSilent()
	}
}

// hangUpSilent closes the links to members that have not acknowledged for as long as a lease. A
// leader that is cut off reports thereby that it reaches no majority: the next does not yield to it.
func (c *Core) hangUpSilent() {
	for i := range c.peers {
		p := &c.peers[i]
		if acked := c.origin.Add(time.Duration(p.acked - 1)); p.link && !p.guest && c.now.Sub(acked) >= c.algorithm.Lease(c.t) {
			c.hangUp(p)
		}
	}
}

// end ends the leadership of this term permanently. A leader that resigns in time announces it, so
// that no member waits for the lease.
func (c *Core) end(cause election.Cause, why string) {
	resigns := cause == election.CauseResigned
	c.over, c.drains = true, false
	c.until, c.beatAt, c.transferAt = time.Time{}, time.Time{}, time.Time{}
	if c.leads() {
		c.unview(cause)
	}
	c.note("steps down", election.None, c.leadership(), why)
	to, reported := raft.None, cause
	if resigns {
		to, reported = c.successor(), ""
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link && p.number != 0 {
			c.send(p, &election.Message{Kind: election.Resign, Token: c.leadership(), Claimant: to, Cause: reported})
		}
	}
	if to == raft.None || c.busy() {
		c.yield()
		return
	}
	c.yieldAt = c.now.Add(2*c.timing.TMax + c.timing.TProcess/2)
	c.node.TransferLeader(to)
}

// yield ends the term: raft steps down when it receives a higher term, and this member is deposed.
func (c *Core) yield() {
	next := c.term() + 1
	c.over = true
	c.stepRaft(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &c.me.Number, To: &c.me.Number, Term: &next})
	c.awaitVotes()
	if !c.campaignAt.IsZero() {
		c.campaignAt = c.campaignAt.Add(c.timing.TMax) // the rest go first
	}
}

// dueLeader sends heartbeats, and ends a leadership that never came into force.
func (c *Core) dueLeader() {
	if c.passed(c.beatAt) {
		c.sendBeats()
	}
	if c.passed(c.yieldAt) {
		c.yield()
	}
	if c.passed(c.transferAt) {
		if c.transferAt = c.now.Add(c.timing.Heartbeat); c.still {
			c.transferAt = c.beatAt
		}
		c.promote()
		c.preempt()
	}
}
