package quorum

import (
	"fmt"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// A member's list is as old as its log. A member that was away while others joined does not have
// them on its list, and one of them may lead by now, or need its vote. So a member without a leader
// accepts a process that is not on its list, as a guest. As in the Raft dissertation (4.1), a
// guest's messages as a leader or a candidate are judged only by its term and its log. It counts in
// no majority and is not dialed. Its leadership is announced once the log, which the guest brings,
// lists it as a member. Its card proves that it belongs to this cluster, by the list that the
// cluster began with and by a raft number that this member has not seen assigned.

// mayVisit reports whether a process that is not on the list here may connect.
func (c *Core) mayVisit(id election.ID) bool {
	if c.halted || c.node != nil && !c.me.Settled {
		return false
	}
	guests := 0
	for i := range c.peers {
		if c.peers[i].guest {
			guests++
		}
	}
	return guests < MaxMembers && (!c.view.Defined() && c.term() == 0 || slices.Contains(c.roster.Gone, id))
}

// visit admits a guest.
func (c *Core) visit(rank election.Rank) *peer {
	if !c.started || rank.ID == c.cfg.Self.ID || !c.mayVisit(rank.ID) {
		c.do(election.Action{Kind: election.Hangup, To: rank.ID})
		return nil
	}
	c.note("lets in", rank.ID, c.view, "it may be newer than this member's log")
	c.peers = append(c.peers, peer{rank: rank, guest: true})
	slices.SortFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
	return c.peer(rank.ID)
}

// sendOff removes a guest.
func (c *Core) sendOff(id election.ID) {
	c.peers = slices.DeleteFunc(c.peers, func(p peer) bool { return p.guest && p.rank.ID == id })
}

// dueGuests disconnects guests that have not identified themselves within T.
func (c *Core) dueGuests() {
	var late []election.ID
	for i := range c.peers {
		if p := &c.peers[i]; p.guest && p.number == 0 && c.now.Sub(p.since) >= c.t {
			late = append(late, p.rank.ID)
		}
	}
	for _, id := range late {
		c.hangUpGuest(id)
	}
}

// renumber accepts the number on a member's card if it is newer than the log here. A number that is
// no longer in the log was removed permanently, and the answer reports that.
func (c *Core) renumber(p *peer, number uint64) bool {
	switch {
	case number == 0 || number > election.MaxEpoch || c.roster.by(number) != nil || c.peerBy(number) != nil:
		return false
	case number < c.roster.Next:
		c.send(p, election.Message{Kind: kindCard, Data: encode(card{Number: c.me.Number, Disk: c.me.Disk, Digest: c.founding(), Void: number, Changed: c.roster.Changed})})
		return false
	}
	p.number, p.acked, p.deferred, p.barred = number, 0, nil, false
	return true
}

// voided handles a peer's report that this member's number was removed.
func (c *Core) voided(p *peer, changed uint64) {
	if c.removed() {
		p.voids, p.changed = true, changed
		c.departs()
		return
	}
	why := ""
	if s := c.roster.of(c.cfg.Self.ID); s != nil {
		why = ": to come back it takes an empty data directory and Config.Join"
	}
	c.halt(fmt.Errorf("member %s says%s: %w", p.rank.ID, why, election.ErrRemoved))
}

// founding returns the digest of the list that the cluster began with; 0: not known.
func (c *Core) founding() uint64 {
	if c.me.Digest != 0 {
		return c.me.Digest
	}
	return c.roster.Founded
}

// listed reports whether a member may be announced as the leader: it is on the list under the
// number that it leads with. A newcomer without a log accepts all members that it was given.
func (c *Core) listed(p *peer) bool {
	return c.roster.by(p.number) != nil || len(c.roster.Seats) == 0 && !p.guest
}

// hangUpGuest disconnects a guest.
func (c *Core) hangUpGuest(id election.ID) {
	if p := c.peer(id); p != nil && p.guest {
		c.hangUp(p)
	}
}
