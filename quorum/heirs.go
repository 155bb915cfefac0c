package quorum

import (
	"fmt"
	"slices"

	"github.com/batuta-dev/batuta/election"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// heirs are the members that may lead next: by a transfer, a resignation or their rank.
type heirs struct {
	*crew
}

// AdmitTransfer returns nil if this member, the leader, can hand over to member to. Otherwise it
// returns [election.ErrNotMember], [election.ErrNotLeading], or an error that wraps
// [election.ErrUnfit] and gives the reason.
func (c *heirs) AdmitTransfer(to election.ID) error {
	p := c.peer(to)
	switch {
	case !c.Knows(to):
		return fmt.Errorf("member %s: %w", to, election.ErrNotMember)
	case !c.leads():
		return fmt.Errorf("member %s: %w", c.cfg.Self.ID, election.ErrNotLeading)
	case p == nil:
		return nil
	case !c.roster.votes(p.number) || p.observer:
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, election.IneligibleObserver)
	case !p.link || c.silent(p):
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, orUnreached(p.state))
	case !mayBeNamed(p):
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, p.aside)
	}
	if c.changing() {
		return fmt.Errorf("member %s %w: a change of the members is not committed yet; try again", to, election.ErrUnfit)
	}
	if !c.current(p.number) {
		return fmt.Errorf("member %s %w: it has not taken up the whole log yet", to, election.ErrUnfit)
	}
	if c.cfg.NoPreempt {
		return nil
	}
	for i := range c.peers {
		if o := &c.peers[i]; o.rank.Above(p.rank) && o.link && !c.silent(o) && standsNext(o) && c.roster.votes(o.number) {
			return fmt.Errorf("member %s %w: member %s outranks it and would replace it; hand over to that member, give %s a higher priority, or run every member with preempt=false", to, election.ErrUnfit, o.rank.ID, to)
		}
	}
	return nil
}

func orUnreached(s election.MemberState) election.MemberState {
	if s == election.StateUnknown || s == election.StateUp {
		return election.StateUnreachable
	}
	return s
}

// standsNext reports whether a member is a candidate once the present leadership has ended.
func standsNext(p *peer) bool {
	return p.aside == election.Eligible || p.aside == election.StandsNext
}

// mayBeNamed reports whether a member is a candidate once it is handed leadership by name: a member
// that has resigned is.
func mayBeNamed(p *peer) bool {
	return standsNext(p) || p.aside == election.IneligibleResigned || p.aside == election.IneligiblePaused
}

// asks reports whether a member asks for votes when no member leads. What it last reported about its
// connections may have changed since.
func asks(p *peer) bool {
	return standsNext(p) || p.aside == election.IneligibleFew
}

// othersStand reports whether a connected voter asks for votes, as far as this member knows.
func (c *heirs) othersStand() bool {
	return slices.ContainsFunc(c.peers, func(p peer) bool {
		return p.link && !p.observer && asks(&p) && c.roster.votes(p.number)
	})
}

// othersAreOutdated reports whether a candidate has asked for votes with an older log than this member's.
func (c *heirs) othersAreOutdated() bool {
	return slices.ContainsFunc(c.peers, func(p peer) bool { return p.outdated })
}

// successor returns the member to hand over to: the transfer target, otherwise the highest-ranked
// candidate that has the whole log, or none. While the members change, the best may be the member that
// is removed: the others would wait for it in vain.
func (c *heirs) successor() uint64 {
	if c.changing() {
		return raft.None
	}
	var best *peer
	c.upToDate(func(p *peer) {
		switch {
		case !standsNext(p) && (p.number != c.to || !mayBeNamed(p)):
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

// upToDate calls f for every connected voter that has the whole log and answers.
func (c *heirs) upToDate(f func(p *peer)) {
	last := c.lastIndex()
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		p := c.peerBy(id)
		if p != nil && slices.Contains(c.roster.conf.GetVoters(), id) && pr.Match >= last && p.link && !c.silent(p) {
			f(p)
		}
	})
}

// better returns the highest-ranked member that outranks this one, or that is to lead in its place
// while it is unhealthy, and has been connected for 2·T; nil: there is none.
func (c *heirs) better(healthy bool) (best *peer) {
	c.upToDate(func(p *peer) {
		if p.aside == election.Eligible && c.now.Sub(p.since) >= 2*c.t && (p.rank.Above(c.cfg.Self) || !healthy) && (best == nil || p.rank.Above(best.rank)) {
			best = p
		}
	})
	return best
}

// stance is this member's eligibility.
type stance struct {
	*crew
	*writer

	healthy bool
	closing bool // its process is about to end
	working bool
	retired bool // there is no work for this member as a leader
	resort  bool // it is a candidate though unhealthy
}

// Standing returns why this member is not a candidate.
func (c *stance) Standing() election.Eligibility {
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
	case c.working && !c.leads():
		return election.IneligibleWorking
	case c.pause.Bars(c.now, c.cfg.Self.ID, c.Knows):
		return election.IneligiblePaused
	case c.outlived && !c.retired:
		return election.StandsNext
	case c.resigned != 0 || c.retired:
		return election.IneligibleResigned
	case !c.healthy:
		return election.LastResort
	case !c.me.Settled: // its first start
		return election.IneligibleFew
	case !c.reachesMajority():
		return election.IneligibleFew
	}
	return election.Eligible
}

// reachesMajority reports whether this member and the connected voters are a majority, so that a
// leader may hand over to this member. Voters that are barred do not count: it ignores their messages.
func (c *stance) reachesMajority() bool {
	for _, voters := range c.roster.majorities() {
		reached := 0
		for _, v := range voters {
			if p := c.peerBy(v); v == c.me.Number || p != nil && p.link && !p.barred {
				reached++
			}
		}
		if 2*reached <= len(voters) {
			return false
		}
	}
	return true
}

// eligible reports whether this member may ask for votes, as far as it can detect. It may before it
// is connected to a majority: to ask connects it.
func (c *stance) eligible() bool {
	if !c.me.Settled || !slices.Contains(c.roster.conf.GetVoters(), c.me.Number) {
		return false
	}
	s := c.Standing()
	return s == election.Eligible || s == election.LastResort || s == election.IneligibleFew
}
