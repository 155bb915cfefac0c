package quorum

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/reaper"
)

// This file changes who belongs, by the log. A newcomer first learns the log, and votes
// when it has all of it; whoever votes comes and goes by way of a joint configuration,
// in which both the old and the new majority are asked.

// Kinds of message about members.
const (
	kindChange election.MessageKind = "change" // to the leader: a change of the members is asked for
	kindSeat   election.MessageKind = "seat"   // to a newcomer: the number that it has got
)

// change is a change of the members that somebody has asked for.
type change struct {
	Remove   bool        `cbor:"1,keyasint,omitempty"`
	ID       election.ID `cbor:"2,keyasint"`
	Address  string      `cbor:"3,keyasint,omitempty"`
	Observer bool        `cbor:"4,keyasint,omitempty"`
	Disk     uint64      `cbor:"5,keyasint,omitempty"` // of one that joins
	Force    bool        `cbor:"6,keyasint,omitempty"` // it is removed though too few are left
	Ranked   bool        `cbor:"7,keyasint,omitempty"` // Priority is said
	Priority int         `cbor:"8,keyasint,omitempty"`
}

// wishes are the changes that were asked for here, until they have come about.
type wishes struct {
	wanted   []wish
	pursueAt time.Time // when they are looked at again
	proposed time.Time // when this leader last proposed a change
	seatAt   time.Time // when a newcomer that still has no number asks again; zero: nobody has let it in
}

type wish struct {
	change
	until time.Time
}

// wish has a change asked for, again whenever there is another leader, for a while.
func (c *Core) wish(ch change) {
	c.wanted = slices.DeleteFunc(c.wanted, func(w wish) bool { return w.ID == ch.ID })
	if len(c.wanted) < MaxMembers {
		c.wanted = append(c.wanted, wish{ch, c.now.Add(20*c.t + 4*c.Earlier())})
	}
	c.pursue()
}

// pursue does what is wished for, or asks the leader to.
func (c *Core) pursue() {
	c.wanted = slices.DeleteFunc(c.wanted, func(w wish) bool { return c.passed(w.until) || c.fulfilled(w.change) })
	if len(c.wanted) == 0 || !c.view.Defined() {
		return
	}
	if c.view.Leader.ID == c.cfg.Self.ID {
		c.propose(c.wanted[0].change)
		return
	}
	if p := c.peer(c.view.Leader.ID); p != nil {
		for _, w := range c.wanted {
			c.send(p, election.Message{Kind: kindChange, Token: c.view, Data: encode(w.change)})
		}
	}
}

func (c *Core) fulfilled(ch change) bool {
	s := c.roster.of(ch.ID)
	if ch.Remove {
		return s == nil
	}
	return s != nil && (ch.Address == "" || s.Address == ch.Address) && (ch.Disk == 0 || c.diskOf(s.Number) == ch.Disk || c.roster.votes(s.Number)) && (!ch.Ranked || c.ranked(s, ch.Priority))
}

// changeAsked takes in another's wish.
func (c *Core) changeAsked(m *election.Message) {
	var ch change
	if decoding.Unmarshal(m.Data, &ch) != nil || c.checkChange(ch) != nil || c.view.Leader.ID != c.cfg.Self.ID {
		return
	}
	c.wish(ch)
}

func (c *Core) checkChange(ch change) error {
	if ch.ID == election.None || !election.Printable(ch.Address, election.MaxAddress) || ch.ID.Kind() != c.cfg.Self.ID.Kind() {
		return errUnsound
	}
	return election.CheckIDs(ch.ID)
}

// propose puts a change into the log, if it may be.
func (c *Core) propose(ch change) {
	if c.drains || c.over || !c.settled || c.busy() || len(c.roster.conf.GetVotersOutgoing()) > 0 || c.now.Sub(c.proposed) < c.timing.TMax {
		return
	}
	s := c.roster.of(ch.ID)
	if ch.Remove {
		c.proposeRemoval(s, ch.Force)
		return
	}
	switch {
	case s == nil && len(c.roster.Seats) >= MaxMembers:
		return
	case s != nil && c.diskOf(s.Number) != 0 && ch.Disk != 0 && c.diskOf(s.Number) != ch.Disk:
		if !c.roster.votes(s.Number) { // it has never voted, and forgets its number
			c.proposeChange(pb.ConfChangeRemoveNode, *s)
		}
		return // else somebody has to remove it first
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
}

// proposeRemoval: a leader that is to go hands over first.
func (c *Core) proposeRemoval(s *seat, force bool) {
	switch {
	case s == nil || c.admitRemoval(s, force) != nil:
	case s.Number == c.me.Number:
		c.leave(0, "it is to be removed")
	default:
		c.proposeChange(pb.ConfChangeRemoveNode, *s)
	}
}

func (c *Core) proposeChange(kind pb.ConfChangeType, s seat) {
	if kind != pb.ConfChangeAddLearnerNode && kind != pb.ConfChangeUpdateNode && c.Earlier() > 0 {
		return // a majority of newcomers would not know what is still held by the times of before
	}
	c.proposed = c.now
	c.note("proposes", s.ID, c.view, kind.String())
	cc := &pb.ConfChangeV2{Context: encode(s), Changes: []*pb.ConfChangeSingle{{Type: &kind, NodeId: &s.Number}}}
	if kind != pb.ConfChangeAddLearnerNode && kind != pb.ConfChangeUpdateNode {
		cc.Transition = pb.ConfChangeTransitionJointImplicit.Enum()
	}
	_ = c.node.ProposeConfChange(cc) // it is tried again until it has come about
}

// reap has a member removed that has been away for too long, if this member leads.
func reap(c *Core) {
	all := []reaper.Member{{ID: c.cfg.Self.ID, Votes: c.roster.votes(c.me.Number)}}
	for i := range c.peers {
		if p := &c.peers[i]; !p.guest {
			away := !p.link && (p.state == election.StateDown || p.state == election.StateUnreachable)
			all = append(all, reaper.Member{ID: p.rank.ID, Away: away, Votes: c.roster.votes(p.number)})
		}
	}
	c.reaper.Look(c.now, c.t, c.view.Leader.ID, c.roster.Most, all)
	id, before := c.reaper.Due(), c.proposed
	if id != election.None && c.view.Leader.ID == c.cfg.Self.ID {
		if c.propose(change{Remove: true, ID: id}); c.proposed.After(before) { // else later, if it is away still
			c.note("reaps", id, c.view, "it has been away for "+c.cfg.ReapAfter.String())
		}
	}
}

// probation, in T, is how long a newcomer has answered before it votes, where members are
// reaped: the list changes without a user there.
const probation = 10

// promote has a newcomer vote that has the whole log.
func (c *Core) promote() {
	if c.view.Leader.ID != c.cfg.Self.ID || c.drains || c.now.Sub(c.proposed) < c.timing.TMax || c.busy() || len(c.roster.conf.GetVotersOutgoing()) > 0 {
		return
	}
	last := c.lastIndex()
	var ready *seat
	c.node.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		s, p := c.roster.by(id), c.peerBy(id)
		if typ == raft.ProgressTypeLearner && s != nil && p != nil && !s.Observer && s.Disk != 0 && pr.Match == last && p.link && !c.silent(p) && (c.cfg.ReapAfter == 0 || c.now.Sub(p.since) >= probation*c.t) {
			ready = s
		}
	})
	if ready != nil {
		c.proposeChange(pb.ConfChangeAddNode, *ready)
	}
}

// checkEntry refuses an entry that could not be applied.
func checkEntry(e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryNormal:
		return nil
	case pb.EntryConfChangeV2:
		var cc pb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return err
		}
		_, err := seatOf(&cc)
		return err
	}
	return errUnsound
}

// seatOf reads whom a change is about; nil: it leaves a joint configuration.
func seatOf(cc *pb.ConfChangeV2) (*seat, error) {
	if len(cc.GetChanges()) == 0 {
		return nil, nil
	}
	var s seat
	if len(cc.GetChanges()) > 1 || decoding.Unmarshal(cc.GetContext(), &s) != nil || checkSeat(s) != nil || cc.GetChanges()[0].GetNodeId() != s.Number {
		return nil, errUnsound
	}
	return &s, nil
}

// changed takes a change of the configuration into the roster.
func (c *Core) changed(cc *pb.ConfChangeV2, conf *pb.ConfState) {
	if err := c.roster.change(cc, conf); err != nil {
		c.halt(err)
		return
	}
	if c.term() != 0 {
		c.warnEven()
	}
	c.reseat()
}

// change takes in a change, after which the configuration is conf.
func (r *roster) change(cc *pb.ConfChangeV2, conf *pb.ConfState) error {
	r.conf, r.Most = conf, max(r.Most, len(conf.GetVoters()))
	s, err := seatOf(cc)
	if err != nil {
		return err
	}
	if s != nil && cc.GetChanges()[0].GetType() != pb.ConfChangeRemoveNode {
		r.put(*s)
	}
	for _, old := range slices.Clone(r.Seats) {
		if !r.counts(old.Number) {
			r.drop(old.Number)
		}
	}
	return nil
}

// warnEven warns of two or four voters: they survive no more than one or three do.
func (c *Core) warnEven() {
	if n := len(c.roster.conf.GetVoters()); (n == 2 || n == 4) && len(c.roster.conf.GetVotersOutgoing()) == 0 {
		c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("%d members vote: they survive the death of %d, as %d do; let an odd number vote", n, n/2-1, n-1)})
	}
}

// counts reports whether a number is in the configuration in any way.
func (r *roster) counts(number uint64) bool {
	return r.votes(number) || slices.Contains(r.conf.GetLearners(), number) || slices.Contains(r.conf.GetLearnersNext(), number)
}

// reseat follows the roster: it tells of who has come and gone.
func (c *Core) reseat() {
	was := slices.Clone(c.peers)
	c.seatPeers()
	for _, old := range was {
		if p := c.peer(old.rank.ID); (p == nil || p.guest) && !old.guest {
			c.note("removes", old.rank.ID, c.view, "")
			c.metas.Drop(old.rank.ID)
			c.do(election.Action{Kind: election.Notify, Member: old.rank.ID, Status: election.StateRemoved})
			if c.view.Leader.ID == old.rank.ID {
				c.unview(election.CauseRemoved)
			}
		}
	}
	c.rerank()
	for i := range c.peers {
		p := &c.peers[i]
		if !p.guest && !slices.ContainsFunc(was, func(old peer) bool { return old.rank.ID == p.rank.ID && old.address == p.address && !old.guest }) {
			c.note("adds", p.rank.ID, c.view, "")
			c.do(election.Action{Kind: election.Notify, Member: p.rank.ID, Status: election.StateAdded, Address: p.address})
			if p.link {
				c.setState(p, election.StateUp) // it connected before it was on the list
			}
			c.dial(p)
		}
	}
	if c.removed() && !c.halted {
		c.note("is removed", election.None, c.view, "it goes once more than half of those who vote know")
		c.tellCommitted()
		c.askWhoKnows()
	}
}

// joined lets a newcomer in through this member.
func (c *Core) joined(e election.Member) {
	ch := change{ID: e.ID, Address: e.Address, Observer: e.Observer, Disk: e.Disk}
	if c.node != nil && c.checkChange(ch) == nil {
		c.sight(e.ID, e.Number, e.Address)
		c.wish(ch)
	}
}

// welcomed takes in whom a newcomer may ask for its seat.
func (c *Core) welcomed(list []election.Member) {
	if c.node != nil {
		for _, m := range list {
			if p := c.peer(m.ID); p != nil && !p.link {
				c.sight(m.ID, m.Number, m.Address)
			}
		}
		return
	}
	if len(list) > 0 && c.seatAt.IsZero() {
		c.seatAt = c.now.Add(4 * c.t)
	}
	for _, m := range list {
		if m.ID == c.cfg.Self.ID || m.Departure != election.Present || c.Knows(m.ID) || len(c.peers) >= 2*MaxMembers {
			continue
		}
		c.hangUpGuest(m.ID)
		c.peers = append(c.peers, peer{rank: m.Rank, address: m.Address, observer: m.Observer})
		c.do(election.Action{Kind: election.Notify, Member: m.ID, Status: election.StateAdded, Address: m.Address})
	}
	slices.SortFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
	for i := range c.peers {
		c.dial(&c.peers[i])
	}
}

// askAgain has a newcomer that has got no seat ask once more to be let in: the wish of
// whoever let it in may be lost, for its process has ended, or it was to be for another
// disk.
func (c *Core) askAgain() {
	if c.node != nil || c.busy() || !c.passed(c.seatAt) {
		return
	}
	c.seatAt = c.now.Add(4 * c.t)
	to := election.None // everyone through whom it joins
	if i := c.random.IntN(len(c.peers) + 1); i < len(c.peers) {
		to = c.peers[i].rank.ID
	}
	c.note("asks again", to, election.Token{}, "it was let in, and has got no number")
	c.do(election.Action{Kind: election.Rejoin, To: to})
}

// offerSeat tells a newcomer its number.
func (c *Core) offerSeat(p *peer) {
	if s := c.roster.by(p.number); s != nil && s.Disk != 0 && p.acked == 0 && c.view.Leader.ID == c.cfg.Self.ID {
		c.send(p, election.Message{Kind: kindSeat, Token: c.view, Data: encode(*s)})
	}
}

// seated takes a newcomer's number: it belongs to the cluster now.
func (c *Core) seated(p *peer, m *election.Message) {
	var s seat
	if c.node != nil || c.busy() || decoding.Unmarshal(m.Data, &s) != nil || checkSeat(s) != nil || s.ID != c.cfg.Self.ID || s.Disk != c.me.Disk {
		return
	}
	c.me = self{Number: s.Number, ID: s.ID, Disk: s.Disk, Settled: true, Promise: c.t}
	c.storage = raft.NewMemoryStorage()
	c.note("is seated", p.rank.ID, m.Token, fmt.Sprintf("as number %d", s.Number))
	c.write([][]byte{record(recordSelf, encode(c.me))}, true, func() {
		peers := c.peers
		if err := c.run(); err != nil {
			c.halt(err)
			return
		}
		c.peers = peers // until the log says who they are
		c.patience = c.now.Add(c.t)
		for i := range c.peers {
			if p := &c.peers[i]; p.link {
				c.showCard(p)
			}
		}
	})
}

// AdmitChange says whether the cluster can add or remove a member now.
func (c *Core) AdmitChange(remove bool, id election.ID, force bool) error {
	if !c.view.Defined() {
		up, all := c.reached()
		return fmt.Errorf("%w; %d of %d voters are reached here", election.ErrNoMajority, up, all)
	}
	if s := c.roster.of(id); remove && s != nil {
		return c.admitRemoval(s, force)
	}
	return nil
}

// admitRemoval refuses to leave fewer live voters than a majority, unless by force: then
// nobody leads before enough of the others are back.
func (c *Core) admitRemoval(s *seat, force bool) error {
	if !c.roster.votes(s.Number) {
		return nil
	}
	live, all := 0, 0
	for _, n := range c.roster.conf.GetVoters() {
		if n == s.Number {
			continue
		}
		all++
		if p := c.peerBy(n); n == c.me.Number || p != nil && p.link {
			live++
		}
	}
	switch {
	case all == 0:
		return fmt.Errorf("%w: it is the only voter, and force does not help: stop it instead", election.ErrTooFew)
	case 2*live <= all && !force:
		return fmt.Errorf("%w: %d of the other %d are reached; bring back those that are down, or say force: then nobody leads until more than half of the %d are there", election.ErrTooFew, live, all, all)
	}
	return nil
}

// reached counts the voters that this member has a link to, itself included.
func (c *Core) reached() (up, all int) {
	for _, n := range c.roster.conf.GetVoters() {
		all++
		if p := c.peerBy(n); n == c.me.Number || p != nil && p.link {
			up++
		}
	}
	return up, all
}
