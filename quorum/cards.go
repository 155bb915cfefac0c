package quorum

import (
	"fmt"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/election"
)

// A number is one disk's. A member whose disk was emptied, and that starts with the list
// of the first start again, has forgotten its votes and must not vote under its number:
// so a member that finds no log takes no part before more than half of the others have
// noted, on disk, that its number is this disk's. Two disks under one number cannot both
// come by that: some other member would have noted both.

// kindCard is how members tell each other which disk they are.
const kindCard election.MessageKind = "card"

// card is what members tell each other first.
type card struct {
	Number uint64        `cbor:"1,keyasint"`
	Disk   uint64        `cbor:"2,keyasint"`
	Digest uint64        `cbor:"3,keyasint,omitempty"` // of the list that its cluster began with
	List   []election.ID `cbor:"4,keyasint,omitempty"` // that list
	Yours  uint64        `cbor:"5,keyasint,omitempty"` // the disk that the receiver's number belongs to, as is on the sender's disk
	Void   uint64        `cbor:"6,keyasint,omitempty"` // the receiver's number, which was removed

	Changed uint64 `cbor:"7,keyasint,omitempty"` // with Void: see [roster]
}

// cards is what a member has told of disks, and has still to write down.
type cards struct {
	noted []uint64 // numbers of others whose disk is to be written down
	known int      // others who have noted this member's disk
}

// showCard tells another member who this one is.
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

// cardFrom takes in another's card.
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
		return // it is on no list here yet
	case known == 0:
		c.disks[p.number] = its.Disk
		c.noted = append(c.noted, p.number) // it is answered when that is on disk
	case known != 0 && known != its.Disk:
		c.bar(p, fmt.Errorf("member %s comes with another disk than it had: it takes no part; remove it, and add it again with an empty data directory", p.rank.ID))
		c.showCard(p) // so that it knows
		return
	case its.Yours == 0:
		c.showCard(p)
	}
	p.barred = false
	c.yours(p, its.Yours)
}

// diskOf is which disk a number belongs to, by the log or by a card; 0: not known yet.
func (c *Core) diskOf(number uint64) uint64 {
	if s := c.roster.by(number); s != nil && s.Disk != 0 {
		return s.Disk
	}
	return c.disks[number]
}

// yours takes note of whether another has this member's number as this disk's.
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

// settleIn has a member of the first start take part once it is known: it has no former
// self that could have promised anything.
func (c *Core) settleIn() {
	if c.me.Settled || 2*c.known <= len(c.roster.Seats)-1 && len(c.roster.Seats) > 1 {
		return
	}
	c.me.Settled, c.selfDue = true, true
	c.note("is known", election.None, election.Token{}, "more than half of the others have noted its disk")
}

// bar has nothing of a member count, and warns why.
func (c *Core) bar(p *peer, why error) {
	if !p.barred {
		p.barred = true
		c.do(election.Action{Kind: election.Warn, Err: why})
	}
}

// differs: two members were started with lists that differ. Their majorities need not
// meet.
func (c *Core) differs(p *peer, its card) {
	switch {
	case p.guest:
		c.hangUp(p)
		return
	case len(its.List) == 0 || len(c.founders) == 0: // one of the clusters is recovered, or this disk joined it
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

// difference says which ids stand on one list alone.
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

// noteDisks writes down what cards have told, and answers then.
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
