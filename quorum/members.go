package quorum

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/reaper"
)

// This file changes the members through the log. A newcomer first receives the log, and votes once
// it has all of it. Voters are added and removed through a joint configuration, which needs both
// the old and the new majority.

// Kinds of message for changes of members.
const (
	kindChange election.MessageKind = "change" // to the leader: a request to change the members
	kindSeat   election.MessageKind = "seat"   // to a newcomer: its number
)

// change is a requested change of the members.
type change struct {
	Remove   bool        `cbor:"1,keyasint,omitempty"`
	ID       election.ID `cbor:"2,keyasint"`
	Address  string      `cbor:"3,keyasint,omitempty"`
	Observer bool        `cbor:"4,keyasint,omitempty"`
	Disk     uint64      `cbor:"5,keyasint,omitempty"` // of a member that joins
	Force    bool        `cbor:"6,keyasint,omitempty"` // remove it even if too few voters are left
	Ranked   bool        `cbor:"7,keyasint,omitempty"` // Priority is given
	Priority int         `cbor:"8,keyasint,omitempty"`
}

// changes are the changes that were requested here and have not happened yet. A method that may
// propose one reports whether this member, the leader, is to be removed and has to hand over first.
type changes struct {
	*crew
	*writer
	*heirs

	reaper   reaper.Reaper
	wanted   []wish
	pursueAt time.Time // when to check them again
	proposed time.Time // when this leader last proposed a change
	seatAt   time.Time // when a newcomer that has no number yet asks again; zero: no member admitted it
}

type wish struct {
	change
	until time.Time
}

// wish requests a change from this leader and from later leaders, for a limited time. For each member
// there is at most one request of users and one of its own, to join. A removal replaces both, and is
// not cancelled by a member that joins.
func (c *changes) wish(ch change) (goes bool) {
	of := func(w wish) bool { return w.ID == ch.ID && (ch.Remove || w.Remove || w.joins() == ch.joins()) }
	if i := slices.IndexFunc(c.wanted, of); i >= 0 && !ch.Remove {
		switch before := c.wanted[i].change; {
		case before.Remove && ch.joins():
			return c.pursue()
		case !before.Remove && !ch.joins():
			ch = ch.after(before)
		}
	}
	c.wanted = slices.DeleteFunc(c.wanted, of)
	if len(c.wanted) < 2*MaxMembers {
		c.wanted = append(c.wanted, wish{ch, c.now.Add(20*c.t + 4*c.Earlier())})
	}
	return c.pursue()
}

// joins reports whether a member requests the change to join.
func (ch change) joins() bool { return ch.Disk != 0 }

// after returns ch with what it leaves open as an earlier request of users has it.
func (ch change) after(before change) change {
	ch.Address = cmp.Or(ch.Address, before.Address)
	if !ch.Ranked {
		ch.Ranked, ch.Priority = before.Ranked, before.Priority
	}
	return ch
}

// pursue proposes the requested changes, or sends them to the leader.
func (c *changes) pursue() (goes bool) {
	c.prune()
	if len(c.wanted) == 0 || !c.view.Defined() {
		return false
	}
	if c.leads() {
		return c.proposeFirst()
	}
	if p := c.peer(c.view.Leader.ID); p != nil {
		for _, w := range c.wanted {
			c.send(p, &election.Message{Kind: kindChange, Token: c.view, Data: encode(w.change)})
		}
	}
	return false
}

// prune drops the requests that are too old, or fulfilled: a removal that has happened
// is no request to remove a member that joins later.
func (c *changes) prune() {
	c.wanted = slices.DeleteFunc(c.wanted, func(w wish) bool { return c.passed(w.until) || c.fulfilled(w.change) })
}

// proposeFirst proposes the first of the requested changes that is allowed now. One that is not
// holds up none behind it: that one may be what the first waits for, such as a voter that is added.
func (c *changes) proposeFirst() (goes bool) {
	before := c.proposed
	for _, w := range c.wanted {
		if goes = c.propose(w.change); goes || c.proposed != before {
			break
		}
	}
	return goes
}

func (c *changes) fulfilled(ch change) bool {
	s := c.roster.of(ch.ID)
	if ch.Remove {
		return s == nil
	}
	return s != nil && (ch.Address == "" || s.Address == ch.Address) && (ch.Disk == 0 || c.diskOf(s.Number) == ch.Disk || c.roster.votes(s.Number)) && (!ch.Ranked || c.ranked(s, ch.Priority))
}

// changeAsked handles a peer's request for a change.
func (c *changes) changeAsked(m *election.Message) (goes bool) {
	var ch change
	if encoding.Unmarshal(m.Data, &ch) != nil || checkChange(ch, c.cfg.Self.ID.Kind()) != nil || !c.leads() {
		return false
	}
	return c.wish(ch)
}

func checkChange(ch change, kind election.Kind) error {
	if ch.ID == election.None || !election.Printable(ch.Address, election.MaxAddress) || ch.ID.Kind() != kind {
		return errUnsound
	}
	return election.CheckIDs(ch.ID)
}

// propose appends a change to the log, if that is allowed.
func (c *changes) propose(ch change) (goes bool) {
	if c.busy() || len(c.roster.conf.GetVotersOutgoing()) > 0 || c.now.Sub(c.proposed) < c.timing.TMax {
		return false
	}
	s := c.roster.of(ch.ID)
	if ch.Remove {
		return c.proposeRemoval(s, ch.Force)
	}
	switch {
	case s == nil && len(c.roster.Seats) >= MaxMembers:
		return false
	case s != nil && c.diskOf(s.Number) != 0 && ch.Disk != 0 && c.diskOf(s.Number) != ch.Disk:
		if !c.roster.votes(s.Number) { // it has never voted, and its number is dropped
			c.proposeChange(pb.ConfChangeRemoveNode, *s)
		}
		return false // otherwise a user has to remove it first
	case s == nil:
		s = &seat{Number: c.roster.Next, ID: ch.ID, Address: ch.Address, Observer: ch.Observer, Disk: ch.Disk}
	default:
		again := *s
		if again.Disk == 0 && !c.roster.votes(s.Number) {
			again.Disk = ch.Disk
		}
		if ch.Address != "" {
			again.Address = ch.Address
		}
		s = &again
	}
	if ch.Ranked {
		s.Priority, s.Process = ch.Priority, max(c.process(ch.ID), 1)
	}
	kind := pb.ConfChangeAddLearnerNode
	if c.roster.votes(s.Number) {
		kind = pb.ConfChangeUpdateNode
	}
	c.proposeChange(kind, *s)
	return false
}

// proposeRemoval proposes a removal; a leader that is to be removed hands over first.
func (c *changes) proposeRemoval(s *seat, force bool) (goes bool) {
	switch {
	case s == nil || c.admitRemoval(s, force) != nil:
	case s.Number == c.me.Number:
		return c.successor() != raft.None // otherwise no other can lead, or the log is still being sent
	default:
		c.proposeChange(pb.ConfChangeRemoveNode, *s)
	}
	return false
}

func (c *changes) proposeChange(kind pb.ConfChangeType, s seat) {
	if kind != pb.ConfChangeAddLearnerNode && kind != pb.ConfChangeUpdateNode && c.Earlier() > 0 {
		return // a majority of newcomers would ignore what is still held under the earlier, longer T
	}
	c.proposed = c.now
	c.note("proposes", s.ID, c.view, kind.String())
	cc := &pb.ConfChangeV2{Context: encode(s), Changes: []*pb.ConfChangeSingle{{Type: &kind, NodeId: &s.Number}}}
	if kind != pb.ConfChangeAddLearnerNode && kind != pb.ConfChangeUpdateNode {
		cc.Transition = pb.ConfChangeTransitionJointImplicit.Enum()
	}
	if c.node.ProposeConfChange(cc) == nil { // otherwise pursue tries it again
		c.ahead = c.lastIndex() + 1
	}
}

// reap proposes the removal of a member that has been away for too long, if this member leads.
func (c *changes) reap() {
	all := []reaper.Member{{ID: c.cfg.Self.ID, Votes: c.roster.votes(c.me.Number)}}
	for i := range c.peers {
		if p := &c.peers[i]; !p.guest {
			away := !p.link && (p.state == election.StateDown || p.state == election.StateUnreachable)
			all = append(all, reaper.Member{ID: p.rank.ID, Away: away, Votes: c.roster.votes(p.number)})
		}
	}
	c.reaper.Look(c.now, c.t, c.view.Leader.ID, c.roster.Most, all)
	id, before := c.reaper.Due(), c.proposed
	if id != election.None && c.leads() {
		if c.propose(change{Remove: true, ID: id}); c.proposed.After(before) { // otherwise later, if it is still away
			c.note("reaps", id, c.view, "it has been absent for "+c.cfg.ReapAfter.String())
		}
	}
}

// probation is how long, in T, a newcomer has to answer before it votes if members are reaped: no
// user watches those changes.
const probation = 10

// promote makes a newcomer a voter once it has the whole log.
func (c *changes) promote() {
	if !c.leads() || c.now.Sub(c.proposed) < c.timing.TMax || c.busy() || len(c.roster.conf.GetVotersOutgoing()) > 0 {
		return
	}
	last := c.lastIndex()
	var ready *seat
	c.node.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		s, p := c.roster.by(id), c.peerBy(id)
		if typ == raft.ProgressTypeLearner && s != nil && p != nil && !s.Observer && s.Disk != 0 && pr.Match >= last && p.link && !c.silent(p) && (c.cfg.ReapAfter == 0 || c.now.Sub(p.since) >= probation*c.t) {
			ready = s
		}
	})
	if ready != nil {
		c.proposeChange(pb.ConfChangeAddNode, *ready)
	}
}

// joined handles a newcomer that joins through this member.
func (c *changes) joined(e election.Member) (goes bool) {
	ch := change{ID: e.ID, Address: e.Address, Observer: e.Observer, Disk: e.Disk}
	if c.node != nil && checkChange(ch, c.cfg.Self.ID.Kind()) == nil {
		c.sight(e.ID, e.Number, e.Address)
		return c.wish(ch)
	}
	return false
}

// welcomed records the members that a newcomer may ask for its number. It dials them until its log
// has a list: the member through which it joins may be cut off from the others, or its disk may hang.
func (c *changes) welcomed(list []election.Member) {
	if len(c.roster.Seats) > 0 {
		for _, m := range list {
			if p := c.peer(m.ID); p != nil && !p.link {
				c.sight(m.ID, m.Number, m.Address)
			}
		}
		return
	}
	if c.node == nil && len(list) > 0 && c.seatAt.IsZero() {
		c.seatAt = c.now.Add(4 * c.t)
	}
	for _, m := range list {
		if m.Departure != election.Present || c.Knows(m.ID) || len(c.peers) >= 2*MaxMembers {
			continue
		}
		c.hangUpGuest(m.ID)
		c.peers = append(c.peers, peer{rank: m.Rank, address: m.Address, observer: m.Observer})
		c.do(election.Action{Kind: election.Notify, Member: m.ID, Status: election.StateAdded, Address: m.Address})
	}
	slices.SortStableFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
	for i := range c.peers {
		c.dial(&c.peers[i])
	}
}

// askAgain makes a newcomer without a number ask to join again: the request that admitted it may be
// lost with the process that held it, or may have been for a different disk.
func (c *changes) askAgain() {
	if c.node != nil || c.busy() || !c.passed(c.seatAt) {
		return
	}
	c.seatAt = c.now.Add(4 * c.t)
	to := election.None // all members through which it joins
	if i := c.random.IntN(len(c.peers) + 1); i < len(c.peers) {
		to = c.peers[i].rank.ID
	}
	c.note("asks again", to, election.Token{}, "it was admitted and has no number")
	c.do(election.Action{Kind: election.Rejoin, To: to})
}

// offerSeat sends a newcomer its number.
func (c *changes) offerSeat(p *peer) {
	if s := c.roster.by(p.number); s != nil && s.Disk != 0 && p.acked == 0 && c.leads() {
		c.send(p, &election.Message{Kind: kindSeat, Token: c.view, Data: encode(*s)})
	}
}

// AdmitChange returns nil if the cluster can add or remove a member now, else the reason.
func (c *changes) AdmitChange(remove bool, id election.ID, force bool) error {
	if !c.view.Defined() {
		up, all := c.reached(0)
		return fmt.Errorf("%w; %d of %d voters are reached here", election.ErrNoMajority, up, all)
	}
	if s := c.roster.of(id); remove && s != nil {
		if err := c.admitRemoval(s, force); err != nil {
			return err
		}
		if s.Number == c.me.Number && c.leads() && !c.othersStand() {
			return fmt.Errorf("it leads, and for now each other voter %w", election.ErrUnfit)
		}
	}
	return nil
}

// admitRemoval refuses to leave fewer live voters than a majority, unless forced: then no member
// leads until enough voters are back.
func (c *changes) admitRemoval(s *seat, force bool) error {
	if !c.roster.votes(s.Number) {
		return nil
	}
	live, all := c.reached(s.Number)
	switch {
	case all == 0:
		return fmt.Errorf("%w: it is the only voter, and force does not help: stop it instead", election.ErrTooFew)
	case 2*live <= all && !force:
		return fmt.Errorf("%w: %d of the other %d are reached; bring back those that are down, or use force: then no member leads until more than half of the %d are there", election.ErrTooFew, live, all, all)
	}
	return nil
}

// ranked reports whether the log gives a member that priority, and the same process still runs.
func (c *changes) ranked(s *seat, priority int) bool {
	process := c.process(s.ID)
	return s.Process != 0 && s.Priority == priority && (process == 0 || s.Process >= process)
}

// settleAddress asks the leader to correct this member's address in the log if it differs from
// where this member listens.
func (c *changes) settleAddress() (goes bool) {
	s := c.roster.of(c.cfg.Self.ID)
	if s == nil || !c.view.Defined() || c.cfg.Address == "" || s.Address == c.cfg.Address || slices.ContainsFunc(c.wanted, func(w wish) bool { return w.ID == c.cfg.Self.ID }) {
		return false
	}
	// A configured list with a different address names a route that this process does not see, such
	// as a translated address.
	if slices.ContainsFunc(c.cfg.Members, func(m election.Member) bool { return m.ID == c.cfg.Self.ID && m.Address != c.cfg.Address }) {
		return false
	}
	return c.wish(change{ID: c.cfg.Self.ID, Address: c.cfg.Address})
}

// reached counts the voters besides one that are connected to this member, itself included.
func (c *changes) reached(but uint64) (up, all int) {
	for _, n := range c.roster.conf.GetVoters() {
		if n == but {
			continue
		}
		all++
		if p := c.peerBy(n); n == c.me.Number || p != nil && p.link {
			up++
		}
	}
	return up, all
}
