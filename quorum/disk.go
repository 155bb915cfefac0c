package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// write starts a write of records, and calls then once they are on disk.
func (c *Core) write(records [][]byte, replace bool, then func()) {
	c.then = then
	c.submit(records, replace)
}

// saved handles the result of a write.
func (c *Core) saved(err error) {
	switch done, answered := c.answer(err); {
	case !answered:
		return
	case !done:
		c.leave(0, "its disk refuses the log")
		return
	}
	then := c.then
	if c.then = nil; then != nil {
		then()
	}
	if !c.halted {
		c.caughtUp()
	}
}

// tryDisk writes the hard state again, to test the disk.
func (c *Core) tryDisk() {
	c.retryAt = time.Time{}
	if !c.halted {
		c.write([][]byte{protoRecord(recordHard, c.hard)}, false, nil)
	}
}

// dueDisk tests a disk when that is due. A leader whose disk hangs resigns; its work stops first.
func (c *Core) dueDisk() {
	switch {
	case !c.passed(c.tryAt(c.serves())):
	case c.disk.Failing():
		c.attempt()
	default:
		c.tryDisk()
	}
	if c.hangs() {
		c.leave(0, "its disk has not answered for T")
	}
}

// advance takes from raft what has to be written, sent and applied, until raft has no more or a
// write is outstanding.
func (c *Core) advance() {
	if c.node == nil || c.halted {
		return
	}
	if !c.busy() && (c.selfDue || len(c.noted) > 0) {
		c.noteDisks()
	}
	for !c.busy() && !c.halted && c.node.HasReady() {
		ready := c.node.Ready()
		if !ready.MustSync && raft.IsEmptySnap(ready.Snapshot) && !c.forgetful(ready.CommittedEntries) {
			c.perform(ready)
			continue
		}
		wait, early := c.sendEarly(ready)
		ready.Messages = wait
		commit := c.hardOf(ready).GetCommit()
		c.write(c.recordsOf(ready), false, func() {
			c.safe = max(c.safe, commit)
			c.perform(ready)
		})
		for _, m := range early {
			c.post(m)
		}
	}
	if !c.busy() && !c.halted && c.written > c.limit() {
		c.compact()
	}
}

// perform does the work of a Ready, which is on disk now.
func (c *Core) perform(ready raft.Ready) {
	defer c.caught()
	var err error
	if !raft.IsEmptySnap(ready.Snapshot) {
		if err = c.takeSnapshot(ready.Snapshot); err == nil {
			c.reseat()
		}
	}
	if err = errors.Join(err, c.keep(ready)); err != nil {
		c.halt(err)
		return
	}
	c.seen = max(c.seen, c.hard.GetTerm())
	for _, m := range ready.Messages {
		c.post(m)
	}
	for _, e := range ready.CommittedEntries {
		c.apply(e)
	}
	if !c.halted {
		c.node.Advance(ready)
		c.turned()
	}
}

// stepRaft steps raft and reports whether raft accepted the message without an error or a panic.
func (c *Core) stepRaft(m *pb.Message) (ok bool) {
	defer c.caught()
	if err := c.node.Step(m); err != nil {
		return false
	}
	c.turned()
	return true
}

// caught is deferred where raft receives input from outside. The input has been checked; should
// raft panic nevertheless, only this member ends.
func (c *Core) caught() {
	if r := recover(); r != nil {
		c.halt(stuck(r))
	}
}

// apply applies a committed entry.
func (c *Core) apply(e *pb.Entry) {
	changed, err := c.take(e)
	if err != nil {
		c.halt(err)
		return
	}
	if e.GetTerm() == c.leader.term {
		c.settled = true
	}
	if changed {
		c.reconfigured()
	}
}

// compact replaces everything that has been applied by a single snapshot.
func (c *Core) compact() {
	if err := c.shorten(); err != nil {
		c.halt(err)
		return
	}
	c.compacts = true
	c.write(c.all(), true, nil)
}

// reconfigured handles a change of the members that has been applied to the roster.
func (c *Core) reconfigured() {
	if c.term() != 0 || c.unsure && !c.recasts(c.roster.Changed) {
		c.unsure = false
		c.warnEven()
	}
	c.reseat()
}

// reseat updates the peers from the roster, and announces which were added and removed.
func (c *Core) reseat() {
	was := slices.Clone(c.peers)
	c.seatPeers()
	c.prune()
	for _, old := range was {
		if p := c.peer(old.rank.ID); p == nil && !old.guest {
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
			if p.state != election.StateUnknown { // only its address has changed
				c.do(election.Action{Kind: election.Notify, Member: p.rank.ID, Status: p.state})
			}
			c.dial(p)
		}
	}
	c.askDisks()
	if c.removed() && !c.halted {
		c.note("is removed", election.None, c.view, "it stops once a majority has recorded it")
		c.tellCommitted(c.Standing())
		c.askWhoKnows()
	}
}

// seated handles a newcomer's number: the member belongs to the cluster now.
func (c *Core) seated(p *peer, m *election.Message) {
	var s seat
	if c.node != nil || c.busy() || encoding.Unmarshal(m.Data, &s) != nil || checkSeat(s) != nil || s.ID != c.cfg.Self.ID || s.Disk != c.me.Disk {
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
		c.peers = peers // until the log lists the members
		c.patience = c.now.Add(c.t)
		for i := range c.peers {
			if p := &c.peers[i]; p.link {
				c.showCard(p)
			}
		}
	})
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
