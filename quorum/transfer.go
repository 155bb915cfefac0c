package quorum

import (
	"fmt"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"

	"github.com/batuta-dev/batuta/election"
)

// AdmitTransfer returns nil if this member, the leader, can hand over to member to. Otherwise it
// returns [election.ErrNotMember], [election.ErrNotLeading], or an error that wraps
// [election.ErrUnfit] and gives the reason.
func (c *Core) AdmitTransfer(to election.ID) error {
	p := c.peer(to)
	switch {
	case !c.Knows(to):
		return fmt.Errorf("member %s: %w", to, election.ErrNotMember)
	case c.view.Leader.ID != c.cfg.Self.ID || c.drains || c.over:
		return fmt.Errorf("member %s: %w", c.cfg.Self.ID, election.ErrNotLeading)
	case p == nil:
		return nil
	case !c.roster.votes(p.number) || p.observer:
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, election.IneligibleObserver)
	case !p.link || c.silent(p):
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, orUnreached(p.state))
	case !standsNext(p):
		return fmt.Errorf("member %s %w: it is %s", to, election.ErrUnfit, p.aside)
	}
	if !c.current(p) {
		return fmt.Errorf("member %s %w: it has not taken up the whole log yet", to, election.ErrUnfit)
	}
	if c.cfg.NoPreempt {
		return nil
	}
	for i := range c.peers {
		if o := &c.peers[i]; o.rank.Above(p.rank) && o.link && !c.silent(o) && o.aside == election.Eligible && c.roster.votes(o.number) {
			return fmt.Errorf("member %s %w: member %s outranks it and would take the lead from it; hand over to that one, give %s a higher priority, or run every member with preempt=false", to, election.ErrUnfit, o.rank.ID, to)
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

// standsNext reports whether a member is a candidate once the present leadership has ended: a
// member that has resigned is.
func standsNext(p *peer) bool {
	return p.aside == election.Eligible || p.aside == election.IneligibleResigned
}

// current reports whether a member has the whole log.
func (c *Core) current(p *peer) (whole bool) {
	last := c.lastIndex()
	c.node.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if id == p.number {
			whole = typ == raft.ProgressTypePeer && pr.Match == last
		}
	})
	return whole
}

// transfer hands leadership over to a member, if that is allowed.
func (c *Core) transfer(to election.ID) {
	if err := c.AdmitTransfer(to); err != nil {
		c.note("refuses", to, c.view, "to hand over: "+err.Error())
		return
	}
	if p := c.peer(to); p != nil {
		c.resigned, c.outlived = c.term(), false
		c.pause.Hold(c.now, election.None)
		c.note("transfers", to, c.view, "it was asked to")
		c.leave(p.number, "it hands over to "+string(to))
	}
}
