package quorum

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/batuta-dev/batuta/election"
)

// stance is this member's eligibility, and how it affects its own leadership.
type stance struct {
	healthy  bool
	closing  bool // its process is about to end
	working  bool
	retired  bool      // there is no work for this member as a leader
	resigned uint64    // the term in which it resigned; until a later leadership ends
	outlived bool      // a later leader existed
	gone     uint64    // the last epoch that it announced as ended
	standAt  time.Time // when no member has led for 2·T, and it is a candidate again
	resort   bool      // it is a candidate though unhealthy
}

// Standing returns why this member is not a candidate.
func (c *Core) Standing() election.Eligibility {
	switch {
	case c.halted, c.removed():
		return election.IneligibleGone
	case c.closing:
		return election.IneligibleClosing
	case c.cfg.Observer:
		return election.IneligibleObserver
	case c.node == nil:
		return election.IneligibleJoining
	case !c.healthy && !c.resort: // before the reasons that concern only the cluster's own leadership
		return election.IneligibleUnhealthy
	case c.disk.Unfit():
		return election.IneligibleUnsaved
	case c.working && c.view.Leader.ID != c.cfg.Self.ID:
		return election.IneligibleWorking
	case c.pause.Bars(c.now, c.cfg.Self.ID, c.Knows):
		return election.IneligiblePaused
	case c.resigned != 0 || c.retired:
		return election.IneligibleResigned
	case !c.healthy:
		return election.LastResort
	}
	return election.Eligible
}

// stands reports whether this member may be elected, as a last resort or not.
func (c *Core) stands() bool {
	s := c.Standing()
	return s == election.Eligible || s == election.LastResort
}

func (c *Core) setWorking(on bool) {
	c.working = on
	if on {
		return
	}
	if c.drains {
		c.end(election.CauseResigned, "its work has stopped")
	}
	if c.term() == 0 && c.patience.IsZero() && c.campaignAt.IsZero() {
		c.awaitVotes()
	}
}

func (c *Core) setHealth(on bool) {
	if c.healthy == on {
		return
	}
	c.healthy, c.resort = on, false
	switch {
	case !on && c.term() != 0 && !c.pause.On(c.now): // otherwise when the pause ends: see preempt
		c.leave(0, "it is unhealthy")
	case on:
		c.standAgain()
	}
}

// setCandidacy handles whether there is work for this member as a leader.
func (c *Core) setCandidacy(on bool) {
	if c.retired == !on {
		return
	}
	c.retired = !on
	switch {
	case !on && c.term() != 0:
		c.leave(0, "there is nothing to do for it as a leader")
	case on:
		c.standAgain()
	}
}

// resign makes this member give up leadership. It is a candidate again when a later leadership has
// ended, when it is asked to campaign, or when no member has led for 2·T.
func (c *Core) resign(why string) {
	if c.term() == 0 || c.over || c.drains {
		return
	}
	c.resigned, c.outlived = c.term(), false
	c.pause.Hold(c.now, election.None)
	c.leave(0, why)
}

// close gives up leadership permanently: this process ends once its work has stopped.
func (c *Core) close() {
	c.closing = true
	c.note("closes", c.cfg.Self.ID, election.Token{}, "")
	c.leave(0, "it closes")
}

// leave gives up leadership once the work has stopped; to 0: to the best candidate. The lease
// continues meanwhile. A leadership that has not begun has no work: work that still runs is of an
// earlier leadership, and no reason to announce this leadership.
func (c *Core) leave(to uint64, why string) {
	if c.term() == 0 || c.over || c.drains {
		return
	}
	c.to = to
	if c.view.Leader.ID == c.cfg.Self.ID {
		c.unview(election.CauseResigned)
		if c.working {
			c.drains = true
			return
		}
	}
	c.end(election.CauseResigned, why)
}

func (c *Core) askedToCampaign() {
	c.resigned, c.outlived, c.retired = 0, false, false
	c.standAgain()
}

// standAgain asks for votes if no member leads.
func (c *Core) standAgain() {
	if c.patience.IsZero() && c.term() == 0 && c.node != nil {
		c.resigned, c.outlived = 0, false
		if !c.healthy && c.cfg.LeadUnhealthy {
			c.resort = true
		}
		// Maybe no candidate has the whole log, or has learned from it that it votes: a member that
		// has it passes it on.
		c.interim = c.me.Settled && (c.newer || c.othersStand()) && !c.eligible() && !c.disk.Unusable() && c.roster.votes(c.me.Number)
		switch {
		case c.interim:
			c.campaignAt = c.now.Add(c.between(c.t))
		case c.campaignAt.IsZero():
			c.awaitVotes()
		}
		c.standAt = c.now.Add(2 * c.t)
	}
}

// othersStand reports whether a connected voter is a candidate, as far as this member knows.
func (c *Core) othersStand() bool {
	return slices.ContainsFunc(c.peers, func(p peer) bool {
		return p.link && !p.observer && p.aside == election.Eligible && c.roster.votes(p.number)
	})
}

// successor returns the member to hand over to: the transfer target, otherwise the highest-ranked
// candidate that has the whole log, or none.
func (c *Core) successor() uint64 {
	var best *peer
	c.candidates(func(p *peer) {
		switch {
		case best != nil && best.number == c.to:
		case best == nil || p.number == c.to || p.rank.Above(best.rank):
			best = p
		}
	})
	if best == nil {
		return raft.None
	}
	return best.number
}

// candidates calls f for every connected voter that has the whole log, answers and is a candidate.
func (c *Core) candidates(f func(p *peer)) {
	last := c.lastIndex()
	c.node.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		p := c.peerBy(id)
		if p != nil && typ == raft.ProgressTypePeer && slices.Contains(c.roster.conf.GetVoters(), id) && pr.Match == last && p.link && !c.silent(p) && (p.aside == election.Eligible || p.number == c.to && standsNext(p)) {
			f(p)
		}
	})
}

// silent reports whether a member has not acknowledged a heartbeat of this term for T.
func (c *Core) silent(p *peer) bool {
	return p.acked == 0 || time.Duration(c.stamp()-p.acked) > c.t
}

// preempt hands leadership to a higher-ranked member that has been connected for 2·T.
func (c *Core) preempt() {
	if c.cfg.NoPreempt && c.healthy || c.view.Leader.ID != c.cfg.Self.ID || c.drains || c.over || c.applied < c.lastIndex() || c.pause.On(c.now) {
		return // while the members change, the best may be the member that is removed
	}
	var best *peer
	c.candidates(func(p *peer) {
		if c.now.Sub(p.since) >= 2*c.t && (p.rank.Above(c.cfg.Self) || !c.healthy) && (best == nil || p.rank.Above(best.rank)) {
			best = p
		}
	})
	if best != nil {
		c.note("makes way for", best.rank.ID, c.view, "it outranks this member and has been there for 2·T")
		c.leave(best.number, "a higher-ranked member is there")
	}
}
