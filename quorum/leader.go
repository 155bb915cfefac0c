package quorum

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/batuta-dev/batuta/election"
)

// leader is the part of a member that raft has made leader. It leads only while its
// lease is in force: from when a round of beats left that a majority acknowledged, for
// T less the drift of clocks. A lease that has ended does not come back: the term is
// over.
type leader struct {
	term    uint64        // that raft has made it leader of; 0: it has not
	rank    election.Rank // as it was elected: a leadership is known by it
	settled bool          // an entry of this term is committed: nothing of before is unknown
	over    bool          // the lease of this term has ended, or is given up; for ever
	drains  bool          // it is to be given up, and the work has not stopped yet
	to      uint64        // whom it is then given to; 0: the best
	until   time.Time     // the end of the lease; zero: there is none
	sent    time.Time     // when the last round left
	beatAt  time.Time     // when the next is due
	yieldAt time.Time     // when a leadership that is over, or never in force, gives up its term

	transferAt time.Time // when it is looked at again who should lead
}

// term gives the term that this member is raft's leader of; 0: it is not.
func (c *Core) term() uint64 { return c.leader.term }

// turned takes note of what raft has become.
func (c *Core) turned() {
	st := c.node.BasicStatus()
	leads := st.RaftState == raft.StateLeader && c.hard.GetTerm() == st.GetTerm() // else its own vote is still on its way to the disk
	if asked := c.asks; asked && st.RaftState == raft.StateFollower && st.Lead == raft.None && !c.campaignAt.IsZero() {
		c.campaignAt = c.now.Add(c.t/10 + c.apart()) // a majority has said no
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

// elected: a majority has voted for this member. It does not lead yet.
func (c *Core) elected(term uint64) {
	c.leader = leader{term: term, rank: c.cfg.Self, yieldAt: c.now.Add(3 * c.t), sent: c.leader.sent}
	c.campaignAt, c.standAt = time.Time{}, time.Time{}
	c.note("is elected", election.None, c.leadership(), "a majority has voted for it")
	for i := range c.peers {
		c.peers[i].acked = 0
	}
	c.beat()
}

// deposed: raft leads no more, for it has heard of a higher term or was removed. Its work may
// run until the lease ends, which counts on its own promise as on that of the others.
func (c *Core) deposed() {
	if c.view.Leader.ID == c.cfg.Self.ID {
		c.patience, c.promised = c.until, c.term()
		c.unview(election.CauseSuperseded)
	}
	c.leader = leader{}
	if c.patience.IsZero() {
		c.awaitVotes()
		c.standAt = c.now.Add(2 * c.t)
	}
}

// leadership is what this member's term is told as.
func (c *Core) leadership() election.Token {
	return election.Token{Epoch: c.leader.term, Leader: c.leader.rank}
}

// beat sends a round of beats. The lease counts from now, before any is answered.
func (c *Core) beat() {
	if c.term() == 0 || c.over {
		c.beatAt = time.Time{}
		return
	}
	c.sent, c.beatAt = c.now, c.now.Add(c.timing.Heartbeat)
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
		if p.number == 0 || p.guest || !c.usable(p) {
			continue
		}
		c.offerSeat(p)
		c.send(p, election.Message{Kind: election.Beat, Token: c.leadership(), Stamp: c.stamp(),
			Draining: c.drains, Data: c.beatData(p, min(commit, p.match))})
	}
	c.prolong()
}

// acked takes in the answer to a beat.
func (c *Core) acked(p *peer, m *election.Message, number uint64, promise time.Duration) {
	if c.term() == 0 || m.Token.Epoch != c.term() || number != p.number {
		return
	}
	if m.Stamp <= 0 || m.Stamp > c.stamp() {
		return // it answers what was not sent yet
	}
	p.acked, p.aside, p.promise = max(p.acked, m.Stamp), m.Eligibility, promise
	if !c.disk.Unusable() { // raft may have entries to send again
		c.stepRaft(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &p.number, To: &c.me.Number, Term: new(c.term())})
	}
	c.prolong()
}

// acknowledged is when the latest round left that a majority has acknowledged, in this
// member's stamps; 0: none. While one configuration takes over from another it takes a
// majority of both.
func (c *Core) acknowledged() int64 {
	least := int64(0)
	for i, voters := range c.roster.majorities() {
		stamps := make([]int64, 0, len(voters))
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

// prolong counts the lease anew, and has the leadership begin when it is in force.
func (c *Core) prolong() {
	if c.term() == 0 || c.over || len(c.roster.conf.GetVoters()) == 0 {
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
	if !c.view.Defined() || c.view.Epoch != c.term() {
		c.begin()
	}
}

// begin has the leadership begin, if its lease is in force and nothing of earlier terms
// is unknown.
func (c *Core) begin() {
	if !c.settled || c.drains || c.hard.GetTerm() != c.term() || !c.now.Before(c.until) {
		return
	}
	if !c.eligible() {
		if c.successor() != raft.None { // else the log is still on its way, until yieldAt
			c.end(election.CauseResigned, "it was elected to pass its log on")
		}
		return
	}
	c.yieldAt = time.Time{}
	c.transferAt = c.now.Add(c.t)
	c.follow(c.leadership())
	c.beat() // so that the others know
}

// expire ends a leadership whose lease has ended, before anything else is done.
func (c *Core) expire() {
	if c.term() == 0 || c.over || !c.passed(c.until) {
		return
	}
	cause := election.CauseSilent
	if c.now.Sub(c.last) >= c.algorithm.Lease(c.t)/2 {
		cause = election.CauseStalled
	}
	c.end(cause, "its lease has ended")
}

// end ends the leadership of this term for ever. What was given up in time is told, so
// that nobody waits for it.
func (c *Core) end(cause election.Cause, why string) {
	resigns := cause == election.CauseResigned
	c.over, c.drains = true, false
	c.until, c.beatAt, c.transferAt = time.Time{}, time.Time{}, time.Time{}
	if c.view.Leader.ID == c.cfg.Self.ID {
		c.unview(cause)
	}
	c.note("gives up", election.None, c.leadership(), why)
	to := raft.None
	if resigns {
		to = c.successor()
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link && p.number != 0 {
			c.send(p, election.Message{Kind: election.Resign, Token: c.leadership(), Claimant: to})
		}
	}
	if to == raft.None || c.busy() {
		c.yield()
		return
	}
	c.yieldAt = c.now.Add(2*c.timing.TMax + c.timing.TProcess/2)
	c.node.TransferLeader(to)
}

// yield gives up the term itself: raft steps down by hearing of a higher one.
func (c *Core) yield() {
	c.yieldAt = time.Time{}
	if c.status().RaftState != raft.StateLeader {
		return
	}
	next := c.term() + 1
	c.over = true
	c.stepRaft(&pb.Message{Type: pb.MsgHeartbeatResp.Enum(), From: &c.me.Number, To: &c.me.Number, Term: &next})
	c.leader = leader{}
	c.standAt = c.now.Add(2 * c.t)
	c.awaitVotes()
	if !c.campaignAt.IsZero() {
		c.campaignAt = c.campaignAt.Add(c.timing.TMax) // others first
	}
}

// dueLeader sends beats, and gives up what never came to be in force.
func (c *Core) dueLeader() {
	if c.passed(c.beatAt) {
		c.beat()
	}
	if c.passed(c.yieldAt) {
		if c.view.Leader.ID == c.cfg.Self.ID {
			c.unview(election.CauseSilent)
		}
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

// Lease is until when this member's leadership is in force, if it does; without a beat
// that a majority answers it ends then.
func (c *Core) Lease() (until time.Time, leads bool) {
	return c.until, c.view.Leader.ID == c.cfg.Self.ID && !c.until.IsZero()
}

// Guard is until when anything that this member's leaderships have begun may still
// run: past the end of the leadership while its work stops. Zero: nothing may.
func (c *Core) Guard() time.Time {
	if c.over || c.term() == 0 || c.view.Leader.ID != c.cfg.Self.ID && !c.drains {
		return time.Time{}
	}
	return c.until
}
