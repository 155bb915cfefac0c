package quorum

import (
	"fmt"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

// voter is what a member has promised, and when it asks for votes itself. A member that has
// received a heartbeat neither grants a vote nor asks for votes until T later: a lease relies on
// that.
type voter struct {
	*crew
	*writer
	*heirs
	*stance

	patience   time.Time // until then it neither grants nor asks for votes; zero: it has ended
	promised   uint64    // the term of the leader that has the promise; 0: an earlier process's
	campaignAt time.Time // when it asks for votes; zero: not at all
	standAt    time.Time // when no member has led for 2·T, and it is a candidate again
	lowerAt    time.Time // when a longer promise of an earlier process leaves the disk; zero: not yet, or there is none
	follows    beat      // the last heartbeat that counted
	asks       bool      // it is asking for votes
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

// owesNoMore records that no promise of an earlier process is in force: this member has waited long
// enough, or follows a leader that a majority has elected. Work under such a promise may be held
// for 2·T and a heartbeat more, by the earlier times. For that long the promise stays on disk,
// however often this member restarts, and its acknowledgements state it.
func (c *voter) owesNoMore() {
	if c.me.Promise > c.t && c.lowerAt.IsZero() {
		c.lowerAt = c.now.Add(3 * c.me.Promise)
	}
}

// awaitVotes makes this member ask for votes soon, at a random moment: members that lose their
// leader at the same time might otherwise always ask in step.
func (c *voter) awaitVotes() { c.askAfter(c.between(c.t / 150)) }

// askAfter makes this member ask for votes after a while; the highest-ranked candidate asks first, and one
// of last resort last. A pause ends at all members at about the same time.
func (c *voter) askAfter(while time.Duration) {
	if !c.eligible() {
		return
	}
	turns := 0
	if !c.healthy {
		turns++
	}
	for i := range c.peers {
		if c.goesFirst(&c.peers[i]) {
			turns++
		}
	}
	c.campaignAt = c.now.Add(time.Duration(turns)*c.turn() + while)
}

// turn is how long a member waits for each candidate that asks before it.
func (c *voter) turn() time.Duration { return c.t / 20 }

// goesFirst reports whether a member asks for votes before this one, and may get them.
func (c *voter) goesFirst(p *peer) bool {
	gone := p.down || p.number == c.follows.from && c.Over(c.follows.term)
	first := p.rank.Above(c.cfg.Self) || !c.healthy
	return first && !gone && !p.outdated && c.roster.votes(p.number) && (asks(p) || p.aside == election.IneligiblePaused)
}

// outdate notes that a candidate has an older log than this member. The candidate gets no vote here, and this
// member does not wait for its turn.
func (c *voter) outdate(p *peer) {
	if c.goesFirst(p) && !c.standsInRaft() && !c.campaignAt.IsZero() {
		c.campaignAt = c.campaignAt.Add(-c.turn())
	}
	p.outdated = true
}

// campaign asks for votes.
func (c *voter) campaign() {
	c.campaignAt = time.Time{}
	if !c.patience.IsZero() || c.serves() || !c.eligible() && !c.interim {
		return
	}
	next := election.Token{Epoch: c.status().GetTerm() + 1}
	_ = c.node.Campaign() // it refuses a member that cannot lead, which eligible has checked
	if !c.standsInRaft() {
		c.askLater()
		return
	}
	c.campaignAt = c.contestEnds()
	c.note("asks", election.None, next, "it knows no leader")
}

// standsInRaft reports whether raft asks for votes. It refuses to while a committed change of the members
// is being written, and does not ask afterwards.
func (c *voter) standsInRaft() bool { return c.status().RaftState != raft.StateFollower }

// askLater makes this member ask for votes after raft has refused to; the highest-ranked asks first.
func (c *voter) askLater() {
	c.campaignAt = c.now.Add(c.t / 20)
	c.askAfter(c.t / 20)
}

// goneBack warns that the leader's commit index is beyond this member's log: this disk had more.
func (c *voter) goneBack(p *peer) {
	if c.warnedBack != c.seen {
		c.warnedBack = c.seen
		c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("member %s reports that this member's log has held more than it does: its disk has gone back in time; remove this member, and add it again with an empty data directory", p.rank.ID)})
	}
}

// contestEnds returns when no vote of this election can arrive any more: votes are requested twice,
// and are on disk before they are granted.
func (c *voter) contestEnds() time.Time { return c.now.Add(2*c.t + c.apart()) }

// apart returns the random pause, of up to T, which keeps candidates without a majority from asking
// again at the same moment. In a search it depends on the number: with equal pauses members would
// always ask together.
func (c *voter) apart() time.Duration {
	if c.still {
		return time.Duration(c.me.Number) * c.t / 6
	}
	return c.between(c.t)
}

// standAgain asks for votes if no member leads.
func (c *voter) standAgain() {
	if c.patience.IsZero() && c.term() == 0 && c.node != nil {
		c.resigned, c.outlived = 0, false
		if !c.healthy && c.cfg.LeadUnhealthy {
			c.resort = true
		}
		// Maybe no candidate has the whole log, or has learned from it that it votes: a member that
		// has it passes it on.
		c.interim = c.me.Settled && (c.othersAreOutdated() || c.othersStand()) && !c.eligible() && !c.disk.Unusable() && c.roster.votes(c.me.Number)
		switch {
		case c.interim:
			c.campaignAt = c.now.Add(c.between(c.t))
		case c.campaignAt.IsZero():
			c.awaitVotes()
		}
		c.standAt = c.now.Add(2 * c.t)
	}
}

// stall handles time that passed without a Step. The process was stopped, or its wall clock ran
// ahead of its peers', so that maybe no time passed at all. All promises of this member are counted
// from now.
func (c *voter) stall() {
	if c.now.Sub(c.last) < c.t {
		return
	}
	c.forgetPaces()
	if !c.patience.IsZero() {
		c.patience = c.now.Add(c.me.Promise)
	}
	if !c.campaignAt.IsZero() {
		c.campaignAt = c.now.Add(c.t)
	}
	if !c.lowerAt.IsZero() {
		c.lowerAt = c.now.Add(3 * c.me.Promise)
	}
}
