package quorum

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// Vouch returns the leadership that holds, and how long ago a message from its leader arrived.
func (c *voter) Vouch() (election.Token, time.Duration) {
	if c.view.Defined() && !c.patience.IsZero() {
		return c.view, c.t - c.patience.Sub(c.now)
	}
	return c.view, 0
}

// List returns all members according to the log, and the removed members.
func (c *crew) List() []election.Member {
	list := make([]election.Member, 0, len(c.roster.Seats)+len(c.roster.Gone)+1)
	for i := range c.roster.Seats {
		s := c.roster.Seats[i]
		s.Address = c.listens(&s)
		list = append(list, asMember(&s))
	}
	for _, id := range c.roster.Gone {
		list = append(list, departed(id))
	}
	slices.SortStableFunc(list, func(a, b election.Member) int { return a.ID.Compare(b.ID) })
	return list
}

func departed(id election.ID) election.Member {
	return election.Member{Rank: election.Rank{ID: id}, Departure: election.Removed}
}

// Entry returns a member's entry in the list. This member's own entry has its number and its disk,
// by which the members that admit it recognize it.
func (c *crew) Entry(id election.ID) (election.Member, bool) {
	if id == c.cfg.Self.ID && !c.removed() {
		e := c.own()
		e.Number, e.Disk = c.me.Number, c.me.Disk
		return e, true
	}
	if s := c.roster.of(id); s != nil {
		return asMember(s), true
	}
	if slices.Contains(c.roster.Gone, id) {
		return departed(id), true
	}
	return election.Member{}, false
}

// Fits reports whether there is room for this member.
func (c *crew) Fits(e election.Member) bool {
	return c.Knows(e.ID) || len(c.roster.Seats) < MaxMembers
}

// Admit returns nil if a process may connect to this member, else the reason.
func (c *crew) Admit(now time.Time, peer election.Rank, incarnation uint64) error {
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

// AdmitAnswer does the same for a process that answers this member's dial: it is at the address
// that the list has.
func (c *crew) AdmitAnswer(now time.Time, peer election.Rank, incarnation uint64) error {
	if p := c.peer(peer.ID); p != nil && incarnation > p.incarnation {
		return nil
	}
	return c.Admit(now, peer, incarnation)
}

// AdmitJoin returns nil if a newcomer may join through this member, else the reason.
func (c *crew) AdmitJoin(now time.Time, e election.Member, incarnation uint64) error {
	switch {
	case c.node == nil || !c.me.Settled || c.removed():
		return election.ErrTooManyJoins // the newcomer asks again
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
	s := c.roster.of(e.ID)
	if s == nil || c.diskOf(s.Number) == e.Disk {
		return nil
	}
	if p := c.peerBy(s.Number); p != nil && p.link && p.state == election.StateUp && p.incarnation != incarnation {
		return election.ErrSameID // a follower receives nothing from it: the leader reports it up
	}
	if c.roster.votes(s.Number) {
		return otherDisk{e.ID}
	}
	return nil
}

// otherDisk is the refusal of a newcomer that has the id of a voter, and not its disk. It is an
// [election.ErrSameID], though the voter may be dead.
type otherDisk struct{ id election.ID }

// Error implements [error].
func (e otherDisk) Error() string {
	return fmt.Sprintf("member %s is on the list with another disk, which has its votes: start it with that disk, or remove it first (batuta members remove %s)", e.id, e.id)
}

// Is reports whether target is [election.ErrSameID].
func (otherDisk) Is(target error) bool { return target == election.ErrSameID }

// Votes returns the voters and the present state of their votes.
func (c *voter) Votes() machine.QuorumView {
	v := machine.QuorumView{Voters: c.Voters(), Term: c.Highest(), Lease: c.Guard(), Promise: c.patience, CampaignAt: c.campaignAt}
	if p := c.peerBy(c.follows.from); p != nil && !c.patience.IsZero() {
		v.PromisedTo = p.rank.ID
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.barred {
			v.Barred = append(v.Barred, p.rank.ID)
		}
	}
	if c.asks {
		st := c.status()
		term := st.GetTerm()
		if v.Granted = 1; st.RaftState == raft.StatePreCandidate {
			term++ // it asks whether it would be granted
		}
		for i := range c.peers {
			if p := &c.peers[i]; p.granted == term && c.roster.votes(p.number) {
				v.Granted++
			}
		}
	}
	if !c.serves() {
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

// Members returns all members, lowest rank first.
func (c *Core) Members() []machine.MemberView {
	views := make([]machine.MemberView, 0, len(c.peers)+1)
	var takesOver bool // as soon as the leader makes way
	for i := range c.peers {
		p := &c.peers[i]
		if p.guest {
			continue
		}
		v := machine.MemberView{Member: election.Member{Rank: p.rank, Address: p.address, Observer: p.observer}, State: p.state, Heard: p.heard, Incarnation: p.incarnation, Eligibility: p.aside, Meta: c.metas.Of(p.rank.ID), Reaped: c.reaper.At(p.rank.ID)}
		if p.state == election.StateUnknown {
			v.State = election.StateAdded
		}
		if p.report.ID != election.None {
			v.Epoch, v.Eligibility = p.report.Epoch, v.Eligibility.Hears(p.report.Eligibility)
		} else if p.rank.ID == c.view.Leader.ID {
			v.Epoch = c.view.Epoch // from its heartbeats
		} else if p.acked > 0 {
			v.Epoch = c.term()
		}
		if p.rank.ID == c.view.Leader.ID {
			takesOver = c.cfg.Self.Above(p.rank) && c.eligible() && !c.cfg.NoPreempt
		}
		views = append(views, v)
	}
	views = append(views, machine.MemberView{Member: c.own(), State: election.StateUp, Epoch: c.view.Epoch, Heard: c.now, Incarnation: c.cfg.Incarnation, Eligibility: c.Standing(), Meta: c.metas.Of(c.cfg.Self.ID), Electing: takesOver})
	slices.SortStableFunc(views, func(a, b machine.MemberView) int { return a.Compare(b.Rank) })
	return views
}

// The rest of this file has the states that a member publishes. Followers exchange nothing without faults, so
// a follower cannot detect that another follower is frozen or cut off. It publishes the states of
// the other followers as its leader reports them.

// setState publishes a member's state.
func (c *crew) setState(p *peer, s election.MemberState) {
	if p.state != s {
		p.state = s
		c.states.Changed()
		c.do(election.Action{Kind: election.Notify, Member: p.rank.ID, Status: s})
	}
}

// setAside records why a member is no candidate, as it last reported.
func (c *crew) setAside(p *peer, e election.Eligibility) {
	if p.aside != e {
		p.aside = e
		c.states.Changed()
	}
}

// observe publishes a state that this member has observed, unless its leader reports that state.
func (c *crew) observe(p *peer, s election.MemberState) {
	if p.report.ID == election.None {
		c.setState(p, s)
	}
}

// reportStates adds the members' states to a heartbeat until p has acknowledged them.
func (c *crew) reportStates(p *peer, m *election.Message) {
	if p.reported != c.states.Version() {
		m.Version, m.States = c.states.Version(), c.states.States(c.reports)
	}
}

// reports lists what this leader has observed.
func (c *crew) reports() []election.MemberReport {
	list := make([]election.MemberReport, 0, len(c.peers))
	for i := range c.peers {
		p := &c.peers[i]
		if p.guest {
			continue
		}
		r := election.MemberReport{ID: p.rank.ID, State: p.state}
		switch {
		case p.acked > 0:
			r.Epoch, r.Eligibility = c.term(), p.aside.Said()
		case p.state == election.StateUnreachable && !c.foundAt.IsZero():
			r.State = election.StateUnknown // it has seen that as a follower, which exchanges nothing with others
		}
		list = append(list, r)
	}
	return list
}

// takeReport publishes what a leader reports, if its heartbeat has a report. The state of a member
// that the leader has not reached yet is unknown there.
func (c *crew) takeReport(leader *peer, m *election.Message) {
	if m.Version == 0 {
		return
	}
	c.statesOf = m.Version
	for _, r := range m.States {
		p := c.peer(r.ID)
		if p == nil || p == leader || p.guest {
			continue
		}
		switch r.State {
		case election.StateUp, election.StateUnreachable, election.StateDown:
			p.report = r
			c.setState(p, r.State)
		}
	}
}

// dropReport ends what the last leader has reported. The states stay until this member observes
// others.
func (c *crew) dropReport() {
	c.statesOf = 0
	for i := range c.peers {
		c.peers[i].report = election.MemberReport{}
	}
}
