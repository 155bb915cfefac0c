package quorum

import (
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/batuta-dev/batuta/election"
)

// stance is whether this member stands for election, and what it does about its own
// leadership when it does not.
type stance struct {
	healthy  bool
	closing  bool // its process is about to end
	working  bool
	retired  bool      // there is nothing to do for this member as a leader
	resigned uint64    // the term in which it resigned; until a later leader's time ends
	outlived bool      // a later leader has been
	gone     uint64    // the last epoch of which it told that it has ended
	standAt  time.Time // then nobody has led for 2·T, and it stands again
	resort   bool      // unhealthy, it stands all the same
}

// Standing is why this member does not stand for election.
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
	case !c.healthy && !c.resort: // before what keeps it from the cluster's own lead alone
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
	case !on && c.term() != 0 && !c.pause.On(c.now): // else when the pause ends: see preempt
		c.leave(0, "it is unhealthy")
	case on:
		c.standAgain()
	}
}

// setCandidacy hears whether there is anything to do for this member as a leader.
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

// resign has this member give up the lead. It stands again when a later leader's time
// has ended, when it is asked to, or when nobody leads for 2·T.
func (c *Core) resign(why string) {
	if c.term() == 0 || c.over || c.drains {
		return
	}
	c.resigned, c.outlived = c.term(), false
	c.pause.Hold(c.now, election.None)
	c.leave(0, why)
}

// close gives up the lead for good: this process is about to end, once its work has stopped.
func (c *Core) close() {
	c.closing = true
	c.note("closes", c.cfg.Self.ID, election.Token{}, "")
	c.leave(0, "it closes")
}

// leave gives the lead up once the work has stopped; to 0: to the best. The lease goes
// on meanwhile. A leadership that has not begun has no work: what still runs is of an
// earlier one, and no reason to tell the others that this one is in force.
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

// standAgain asks for votes if nobody leads.
func (c *Core) standAgain() {
	if c.patience.IsZero() && c.term() == 0 && c.node != nil {
		c.resigned, c.outlived = 0, false
		if !c.healthy && c.cfg.LeadUnhealthy {
			c.resort = true
		}
		// Of those that stand nobody may have the whole log, or know by it that it votes:
		// who has it passes it on.
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

// othersStand reports whether a voter is reached that stands, as far as is known.
func (c *Core) othersStand() bool {
	return slices.ContainsFunc(c.peers, func(p peer) bool {
		return p.link && !p.observer && p.aside == election.Eligible && c.roster.votes(p.number)
	})
}

// successor is to whom the lead is given: the one it was meant for, else the highest of
// those that have the whole log and stand. None: nobody.
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

// candidates calls f for every other voter that has the whole log, answers and stands.
func (c *Core) candidates(f func(p *peer)) {
	last := c.lastIndex()
	c.node.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		p := c.peerBy(id)
		if p != nil && typ == raft.ProgressTypePeer && slices.Contains(c.roster.conf.GetVoters(), id) && pr.Match == last && p.link && !c.silent(p) && (p.aside == election.Eligible || p.number == c.to && standsNext(p)) {
			f(p)
		}
	})
}

// silent reports whether a member has not answered a beat of this term for T.
func (c *Core) silent(p *peer) bool {
	return p.acked == 0 || time.Duration(c.stamp()-p.acked) > c.t
}

// preempt gives the lead to a higher-ranked member that has been there for 2·T.
func (c *Core) preempt() {
	if c.cfg.NoPreempt && c.healthy || c.view.Leader.ID != c.cfg.Self.ID || c.drains || c.over || c.applied < c.lastIndex() || c.pause.On(c.now) {
		return // while the members change, the best may be the one that goes
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
