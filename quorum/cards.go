package quorum

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
)

// A number belongs to a single disk. A member whose disk was emptied has lost its votes; if it
// starts with the first list again it must not vote under its number. So a member without a log
// takes no part until more than half of the remaining members have noted on disk that its number
// belongs to its disk. Two disks with the same number cannot both achieve that: some member would
// have noted both.

// kindCard identifies a member's disk to its peers.
const kindCard election.MessageKind = "card"

// card is the first message on a connection between members.
type card struct {
	Number uint64        `cbor:"1,keyasint"`
	Disk   uint64        `cbor:"2,keyasint"`
	Digest uint64        `cbor:"3,keyasint,omitempty"` // of the list that its cluster began with
	List   []election.ID `cbor:"4,keyasint,omitempty"` // that list
	Yours  uint64        `cbor:"5,keyasint,omitempty"` // the disk that the receiver's number belongs to, as is on the sender's disk
	Void   uint64        `cbor:"6,keyasint,omitempty"` // the receiver's number, which was removed

	Changed uint64 `cbor:"7,keyasint,omitempty"` // with Void: see [roster]
}

// cards holds what was learned about disks and is not on disk yet.
type cards struct {
	noted []uint64 // numbers of members, the disk of each to be written
	known int      // how many members have noted this member's disk
}

// showCard sends this member's card to a peer.
func (c *Core) showCard(p *peer) {
	if c.node == nil || p.guest && p.number == 0 {
		return
	}
	me := card{Number: c.me.Number, Disk: c.me.Disk, Digest: c.founding(), Yours: c.diskOf(p.number)}
	if slices.Contains(c.noted, p.number) {
		me.Yours = 0 // not on disk yet
	}
	if c.me.Digest != 0 {
		me.List = append(me.List, c.founders...)
	}
	c.send(p, election.Message{Kind: kindCard, Data: encode(me)})
}

// cardFrom handles a peer's card.
func (c *Core) cardFrom(p *peer, data []byte) {
	var its card
	if decoding.Unmarshal(data, &its) != nil || its.Disk == 0 || election.CheckIDs(its.List...) != nil {
		return
	}
	if ours := c.founding(); its.Digest != 0 && ours != 0 && its.Digest != ours {
		c.differs(p, its)
		return
	}
	if its.Void != 0 && its.Void == c.me.Number {
		c.voided(p, its.Changed)
		return
	}
	if its.Number != p.number {
		if c.renumber(p, its.Number) {
			c.showCard(p)
		}
		return
	}
	switch known := c.diskOf(p.number); {
	case known == 0 && c.roster.by(p.number) == nil:
		return // no list here has it yet
	case known == 0:
		c.disks[p.number] = its.Disk
		c.noted = append(c.noted, p.number) // the answer waits until that is on disk
	case known != 0 && known != its.Disk:
		c.bar(p, fmt.Errorf("member %s comes with another disk than it had: it takes no part; remove it, and add it again with an empty data directory", p.rank.ID))
		c.showCard(p) // so that it detects the conflict
		return
	case its.Yours == 0:
		c.showCard(p)
	}
	p.barred = false
	c.yours(p, its.Yours)
}

// diskOf returns the disk that a number belongs to, by the log or by a card; 0: not known yet.
func (c *Core) diskOf(number uint64) uint64 {
	if s := c.roster.by(number); s != nil && s.Disk != 0 {
		return s.Disk
	}
	return c.disks[number]
}

// yours checks whether a peer has recorded this disk under this member's number.
func (c *Core) yours(p *peer, disk uint64) {
	switch {
	case disk == 0:
	case disk != c.me.Disk:
		c.halt(fmt.Errorf("member %s knows this member by another disk: the data directory was emptied or replaced, and what was promised with it is forgotten; remove member %s from the cluster (batuta members remove %s, at another member), and start it again with Config.Join and an empty data directory", p.rank.ID, c.cfg.Self.ID, c.cfg.Self.ID))
	case !c.me.Settled && !p.noted:
		p.noted = true
		c.known++
		c.settleIn()
	}
}

// settleIn lets a member of the first start take part once enough members have noted its disk: no
// earlier process can have promised anything.
func (c *Core) settleIn() {
	if c.me.Settled || 2*c.known <= len(c.roster.Seats)-1 && len(c.roster.Seats) > 1 {
		return
	}
	c.me.Settled, c.selfDue = true, true
	c.note("is known", election.None, election.Token{}, "more than half of the others have noted its disk")
}

// bar ignores all messages of a member from now on, and warns why.
func (c *Core) bar(p *peer, why error) {
	if !p.barred {
		p.barred = true
		c.do(election.Action{Kind: election.Warn, Err: why})
	}
}

// differs handles two members that were started with different lists: their majorities may not
// overlap.
func (c *Core) differs(p *peer, its card) {
	switch {
	case p.guest:
		c.hangUp(p)
		return
	case len(its.List) == 0 || len(c.founders) == 0: // a cluster was recovered, or this disk joined it
		c.bar(p, fmt.Errorf("member %s has the log of another cluster, which began with another list or was recovered (batuta recover): it takes no part; empty the data directory of the member that is to change, and start it with Config.Join", p.rank.ID))
		return
	}
	err := fmt.Errorf("the lists of members differ: member %s was first started with %s, and this member with %s (%s): give all the same list in Config.Peers", p.rank.ID,
		join(its.List), join(c.founders), difference(c.founders, its.List))
	if !c.me.Settled {
		c.halt(err)
		return
	}
	c.bar(p, err)
}

func join(ids []election.ID) string {
	words := make([]string, len(ids))
	for i, id := range ids {
		words[i] = string(id)
	}
	return strings.Join(words, ",")
}

// difference lists the ids that are in only one of two lists.
func difference(ours, theirs []election.ID) string {
	var words []string
	for _, id := range ours {
		if !slices.Contains(theirs, id) {
			words = append(words, "only here: "+string(id))
		}
	}
	for _, id := range theirs {
		if !slices.Contains(ours, id) {
			words = append(words, "only there: "+string(id))
		}
	}
	return strings.Join(words, ", ")
}

// noteDisks writes down what cards have shown, and answers them afterwards.
func (c *Core) noteDisks() {
	if c.selfDue {
		c.selfDue = false
		c.writeSelf(func() {
			if !c.patience.IsZero() && c.promised == 0 {
				c.release(election.CauseSilent)
			}
		})
		return
	}
	numbers := c.noted
	if len(numbers) == 0 {
		return
	}
	var records [][]byte
	for _, n := range numbers {
		records = append(records, record(recordDisk, encode(disk{n, c.disks[n]})))
	}
	c.write(records, false, func() {
		c.noted = c.noted[len(numbers):]
		for _, n := range numbers {
			if p := c.peerBy(n); p != nil && p.link {
				c.showCard(p)
			}
		}
	})
}

// Settled reports whether this member takes part.
func (c *Core) Settled() bool { return c.node != nil && c.me.Settled }
