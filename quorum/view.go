package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// This file tells what a member knows, and says who may connect to it.

// config makes an error of which only the user can mend the cause.
func config(format string, args ...any) error { return fmt.Errorf(format, args...) }

// Self is this member.
func (c *Core) Self() election.Rank { return c.cfg.Self }

// View is the leadership that holds for this member.
func (c *Core) View() election.Token { return c.view }

// Held is the highest leadership that it has told of; its epoch is the term on disk if
// it has told of none.
func (c *Core) Held() election.Token { return c.held }

// Highest is the highest term that it has seen.
func (c *Core) Highest() uint64 { return max(c.seen, c.held.Epoch) }

// Vouch is the leadership that holds, and how long ago its leader was heard.
func (c *Core) Vouch() (election.Token, time.Duration) {
	if c.view.Defined() && !c.patience.IsZero() {
		return c.view, c.t - c.patience.Sub(c.now)
	}
	return c.view, 0
}

// Members are all members, lowest rank first.
func (c *Core) Members() []machine.MemberView {
	views := make([]machine.MemberView, 0, len(c.peers)+1)
	for i := range c.peers {
		p := &c.peers[i]
		if p.guest {
			continue
		}
		v := machine.MemberView{Member: c.entry(p), State: p.state, Heard: p.heard, Incarnation: p.incarnation, Eligibility: p.aside, Meta: c.metas.Of(p.rank.ID), Reaped: c.reaper.At(p.rank.ID)}
		if p.state == election.StateUnknown {
			v.State = election.StateAdded
		}
		if p.acked > 0 {
			v.Epoch = c.term()
		} else if p.rank.ID == c.view.Leader.ID {
			v.Epoch = c.view.Epoch // by its beats
		}
		views = append(views, v)
	}
	views = append(views, machine.MemberView{Member: c.own(), State: election.StateUp, Epoch: c.view.Epoch, Heard: c.now, Incarnation: c.cfg.Incarnation, Eligibility: c.Standing(), Meta: c.metas.Of(c.cfg.Self.ID)})
	slices.SortFunc(views, func(a, b machine.MemberView) int { return a.Compare(b.Rank) })
	return views
}

func (c *Core) entry(p *peer) election.Member {
	return election.Member{Rank: p.rank, Address: p.address, Observer: p.observer}
}

func (c *Core) own() election.Member {
	return election.Member{Rank: c.cfg.Self, Address: c.cfg.Address, Observer: c.cfg.Observer}
}

// List is everyone by the log, those who have gone too.
func (c *Core) List() []election.Member {
	list := make([]election.Member, 0, len(c.roster.Seats)+len(c.roster.Gone)+1)
	for i := range c.roster.Seats {
		s := c.roster.Seats[i]
		s.Address = c.listens(&s)
		list = append(list, asMember(&s))
	}
	for _, id := range c.roster.Gone {
		list = append(list, c.departed(id))
	}
	slices.SortFunc(list, func(a, b election.Member) int { return cmp.Or(a.ID.Compare(b.ID)) })
	return list
}

func asMember(s *seat) election.Member {
	return election.Member{Rank: election.Rank{ID: s.ID}, Address: s.Address, Observer: s.Observer, Number: s.Number}
}

func (c *Core) departed(id election.ID) election.Member {
	return election.Member{Rank: election.Rank{ID: id}, Departure: election.Removed}
}

// Entry is a member's place on the list. This member's own has its number and its disk, by
// which those that let it in recognize it.
func (c *Core) Entry(id election.ID) (election.Member, bool) {
	if id == c.cfg.Self.ID && !c.removed() {
		e := c.own()
		e.Number, e.Disk = c.me.Number, c.me.Disk
		return e, true
	}
	if s := c.roster.of(id); s != nil {
		return asMember(s), true
	}
	if slices.Contains(c.roster.Gone, id) {
		return c.departed(id), true
	}
	return election.Member{}, false
}

// Knows reports whether id is a member.
func (c *Core) Knows(id election.ID) bool {
	p := c.peer(id)
	return id == c.cfg.Self.ID || p != nil && !p.guest
}

// Fits reports whether one more member may come.
func (c *Core) Fits(e election.Member) bool { return c.Knows(e.ID) || len(c.roster.Seats) < MaxMembers }

// Admit says whether a process that dials this member may.
func (c *Core) Admit(now time.Time, peer election.Rank, incarnation uint64) error {
	if peer.ID == c.cfg.Self.ID {
		return election.ErrSameID
	}
	p := c.peer(peer.ID)
	lives := p != nil && p.link && now.Sub(p.heard) <= c.t
	switch {
	case p == nil && c.mayVisit(peer.ID):
		return nil
	case p == nil:
		return election.ErrNotMember
	case incarnation < p.incarnation && lives:
		return election.ErrOldIncarnation
	case incarnation > p.incarnation && lives:
		return election.ErrSameID
	}
	return nil
}

// AdmitAnswer says it of a process that answers this member's dial: it is where the
// list has that member.
func (c *Core) AdmitAnswer(now time.Time, peer election.Rank, incarnation uint64) error {
	if p := c.peer(peer.ID); p != nil && incarnation > p.incarnation {
		return nil
	}
	return c.Admit(now, peer, incarnation)
}

// AdmitJoin says whether a newcomer may join through this member.
func (c *Core) AdmitJoin(now time.Time, e election.Member, incarnation uint64) error {
	switch {
	case c.node == nil || !c.me.Settled || c.removed():
		return election.ErrTooManyJoins // it is to ask again
	case c.moved(e):
		return nil
	case !c.view.Defined():
		return election.ErrTooManyJoins
	case e.Number != 0 && e.Number < c.roster.Next && c.roster.by(e.Number) == nil:
		return election.ErrRemoved
	case e.ID.Kind() != c.cfg.Self.ID.Kind():
		return fmt.Errorf("%w: %s is a %v, here they are of kind %v", election.ErrMixedKind, e.ID, e.ID.Kind(), c.cfg.Self.ID.Kind())
	case slices.Contains(c.roster.Gone, e.ID) && c.roster.of(e.ID) == nil && e.Disk == 0:
		return election.ErrRemoved
	case !c.Fits(e):
		return election.ErrFull
	}
	if s := c.roster.of(e.ID); s != nil && c.diskOf(s.Number) != e.Disk && c.roster.votes(s.Number) {
		return fmt.Errorf("%w: member %s is there with another disk: remove it first (batuta members remove %s)", election.ErrSameID, e.ID, e.ID)
	}
	return nil
}

// Applied is up to where this member has taken in the log, and a sum of all that it
// holds up to there.
func (c *Core) Applied() (index, chain uint64) { return c.applied, c.roster.Chain }

// Voters are who votes: two sets while one configuration takes over from another; none
// while this member belongs to no cluster.
func (c *Core) Voters() [][]election.ID {
	var sets [][]election.ID
	for _, numbers := range c.roster.majorities() {
		var ids []election.ID
		for _, n := range numbers {
			if s := c.roster.by(n); s != nil {
				ids = append(ids, s.ID)
			}
		}
		if len(ids) > 0 {
			sets = append(sets, ids)
		}
	}
	return sets
}

// Votes are who votes and what their votes are worth now.
func (c *Core) Votes() machine.QuorumView {
	v := machine.QuorumView{Voters: c.Voters(), Term: c.Highest(), Lease: c.Guard(), Promise: c.patience}
	if p := c.peerBy(c.follows.from); p != nil && !c.patience.IsZero() {
		v.PromisedTo = p.rank.ID
	}
	if c.term() == 0 || c.over {
		return v
	}
	v.Answered = map[election.ID]time.Time{}
	for i := range c.peers {
		if p := &c.peers[i]; p.acked > 0 && c.roster.votes(p.number) {
			v.Answered[p.rank.ID] = c.origin.Add(time.Duration(p.acked - 1))
		}
	}
	return v
}
