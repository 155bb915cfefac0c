package quorum

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/batuta-dev/batuta/election"
)

// A number belongs to a single disk. A member whose disk was emptied has lost its votes; if it
// starts with the first list again it must not vote under its number. So a member without a log
// takes no part until more than half of the remaining members have noted on disk that its number
// belongs to its disk. Two disks with the same number cannot both achieve that: some member would
// have noted both.

// kindCard identifies a member's disk to its peers.
const kindCard election.MessageKind = "card"

// mostAnswers bounds the cards that answer a member's over one connection while its disk is being noted: it
// answers as well while it notes this member's.
const mostAnswers = 4

// card is the first message on a connection between members.
type card struct {
	Number uint64        `cbor:"1,keyasint"`
	Disk   uint64        `cbor:"2,keyasint"`
	Digest uint64        `cbor:"3,keyasint,omitempty"` // of the list that its cluster began with
	List   []election.ID `cbor:"4,keyasint,omitempty"` // that list
	Yours  uint64        `cbor:"5,keyasint,omitempty"` // the disk that the receiver's number belongs to, as is on the sender's disk
	To     uint64        `cbor:"8,keyasint,omitempty"` // with Yours: that number; 0: an earlier release
	Void   uint64        `cbor:"6,keyasint,omitempty"` // the receiver's number, which was removed

	Changed uint64 `cbor:"7,keyasint,omitempty"` // with Void: see [roster]
}

// cards exchanges cards with the peers. What ends this member is returned as an error.
type cards struct {
	*crew
	*writer
	noted []uint64 // numbers of members, the disk of each to be written
}

// cardFrom handles a peer's card, and its pause if the card fits.
func (c *cards) cardFrom(p *peer, m *election.Message) error {
	var its card
	if encoding.Unmarshal(m.Data, &its) != nil || its.Disk == 0 || election.CheckIDs(its.List...) != nil {
		return nil
	}
	if ours := c.founding(); its.Digest != 0 && ours != 0 && its.Digest != ours {
		return c.differs(p, its)
	}
	if its.Void == c.me.Number { // which is not 0: this member has one
		return c.voided(p, its.Changed)
	}
	if its.Number != p.number {
		if c.renumber(p, its.Number) {
			c.showCard(p)
		}
		return nil
	}
	switch known := c.diskOf(p.number); {
	case known == 0 && c.roster.by(p.number) == nil && c.single():
		return c.yours(p, its)
	case known == 0 && c.roster.by(p.number) == nil:
		return nil // no list here has it yet
	case known == 0:
		c.disks[p.number] = its.Disk
		c.noted = append(c.noted, p.number) // the answer waits until that is on disk
	case known != its.Disk:
		if !p.barred { // otherwise two that bar each other would never cease to answer
			c.showCard(p) // so that it detects the conflict
		}
		c.bar(p, fmt.Errorf("member %s comes with another disk than it had: it takes no part; remove it, and add it again with an empty data directory", p.rank.ID))
		return nil
	case its.Yours == 0 && !(slices.Contains(c.noted, p.number) && p.answers >= mostAnswers): // else its answer waits
		p.answers++
		c.showCard(p)
	}
	p.barred = false
	c.pause.Receive(c.now, m.Pause)
	return c.yours(p, its)
}

// yours checks whether a peer has recorded this disk under this member's number. A peer that was away
// may have an earlier number and disk of this member's id.
func (c *cards) yours(p *peer, its card) error {
	switch {
	case its.Yours == 0 || its.To != 0 && its.To != c.me.Number:
	case its.Yours != c.me.Disk:
		return fmt.Errorf("member %s knows this member by another disk: the data directory was emptied or replaced, and what was promised with it is forgotten; remove member %s from the cluster (batuta members remove %s, at another member), and start it again with Config.Join and an empty data directory", p.rank.ID, c.cfg.Self.ID, c.cfg.Self.ID)
	case !c.me.Settled && !p.noted:
		p.noted = true
		c.settleIn()
	}
	return nil
}

// differs handles two members that were started with different lists: their majorities may not
// overlap.
func (c *cards) differs(p *peer, its card) error {
	switch {
	case p.guest: // dueGuests disconnects it
		c.send(p, &election.Message{Kind: kindCard, Data: encode(card{Number: c.me.Number, Disk: c.me.Disk, Digest: c.founding()})})
		return nil
	case len(its.List) == 0 || len(c.me.Founders) == 0: // a cluster was recovered, or this disk joined it
		c.bar(p, fmt.Errorf("member %s has the log of another cluster, which began with another list or was recovered (batuta recover): it takes no part; empty the data directory of the member that is to change, and start it with Config.Join", p.rank.ID))
		return nil
	}
	err := fmt.Errorf("the lists of members differ: member %s was first started with %s, and this member with %s (%s): give all the same list in Config.Peers", p.rank.ID,
		join(its.List), join(c.me.Founders), difference(c.me.Founders, its.List))
	if !c.me.Settled {
		return err
	}
	c.bar(p, err)
	return nil
}

// voided handles a peer's report that this member's number was removed.
func (c *cards) voided(p *peer, changed uint64) error {
	if c.removed() {
		p.voids, p.changed = true, changed
		return c.departs()
	}
	why := ""
	if s := c.roster.of(c.cfg.Self.ID); s != nil {
		why = ": to come back it takes an empty data directory and Config.Join"
	}
	return fmt.Errorf("member %s reports%s: %w", p.rank.ID, why, election.ErrRemoved)
}

// departs ends this member once more than half of the present voters have applied its removal:
// until then they may need its vote or its commit index. If the members have changed again since,
// more than half had applied it: the next change is not proposed earlier.
func (c *cards) departs() error {
	know, later, voters := 0, false, c.roster.conf.GetVoters()
	for i := range c.peers {
		if p := &c.peers[i]; p.voids {
			later = later || p.changed > c.roster.Changed
			if slices.Contains(voters, p.number) {
				know++
			}
		}
	}
	if later || 2*know > len(voters) {
		return fmt.Errorf("it was removed: %w", election.ErrRemoved)
	}
	return nil
}

// showCard sends this member's card to a peer.
func (c *cards) showCard(p *peer) {
	if c.node == nil || c.fresh || p.guest && p.number == 0 {
		return // the cards of a disk that has no number yet follow its first write
	}
	me := card{Number: c.me.Number, Disk: c.me.Disk, Digest: c.founding(), List: c.me.Founders, Yours: c.diskOf(p.number), To: p.number}
	if slices.Contains(c.noted, p.number) {
		me.Yours = 0 // not on disk yet
	}
	c.send(p, &election.Message{Kind: kindCard, Data: encode(me)})
}

// bar ignores all messages of a member from now on, and warns why.
func (c *cards) bar(p *peer, why error) {
	if !p.barred {
		p.barred = true
		c.do(election.Action{Kind: election.Warn, Err: why})
	}
}

// askDisks shows this member's card to the members of which it does not know the disk, and they answer. The
// cards that a newcomer exchanges before it has the log name members that are on no list here yet.
func (c *cards) askDisks() {
	for i := range c.peers {
		if p := &c.peers[i]; p.link && !p.guest && c.diskOf(p.number) == 0 {
			c.showCard(p)
		}
	}
}

// askWhoKnows makes a removed member send its card: a peer that applied the removal answers that
// the number is void.
func (c *cards) askWhoKnows() {
	if !c.removed() {
		return
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link && !p.voids {
			c.showCard(p)
		}
	}
}

// renumber accepts the number on a member's card if it is newer than the log here. A number that is
// no longer in the log was removed permanently, and the answer reports that.
func (c *cards) renumber(p *peer, number uint64) bool {
	switch {
	case number == 0 || number > election.MaxEpoch || c.roster.by(number) != nil || c.peerBy(number) != nil:
		return false
	case number < c.roster.Next:
		c.send(p, &election.Message{Kind: kindCard, Data: encode(card{Number: c.me.Number, Disk: c.me.Disk, Digest: c.founding(), Void: number, Changed: c.roster.Changed})})
		return false
	}
	p.number, p.acked, p.deferred, p.outdated, p.barred = number, 0, nil, false, false
	return true
}

// known returns how many members have noted this member's disk.
func (c *cards) known() (n int) {
	for i := range c.peers {
		if c.peers[i].noted {
			n++
		}
	}
	return n
}

// settleIn lets a member of the first start take part once enough members have noted its disk: no
// earlier process can have promised anything.
func (c *cards) settleIn() {
	if 2*c.known() <= len(c.roster.Seats)-1 {
		return
	}
	c.me.Settled, c.selfDue = true, true
	c.note("is known", election.None, election.Token{}, "more than half of the others have noted its disk")
}

// Keeps reports whether records hold what this member acts on; true while a write is outstanding.
func (c *cards) Keeps(records [][]byte) bool {
	if c.node == nil || c.halted || c.busy() || c.fresh {
		return true
	}
	s, err := load(records)
	if err != nil || s == nil || s.hard.GetTerm() != c.hard.GetTerm() || s.hard.GetVote() != c.hard.GetVote() || s.hard.GetCommit() < c.safe {
		return false
	}
	for number, disk := range c.disks {
		if s.disks[number] != disk && !slices.Contains(c.noted, number) {
			return false
		}
	}
	index, term := s.end()
	want, err := c.storage.Term(index)
	return err == nil && index == c.lastIndex() && term == want && (c.selfDue || bytes.Equal(encode(s.self), encode(c.me)))
}
