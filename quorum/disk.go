package quorum

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/epoch"
)

// writer manages writes to disk, a single write at a time. No message contains what is not on disk.
type writer struct {
	hard    *pb.HardState // of raft; on disk, except a commit index that need not be
	safe    uint64        // the commit index on disk
	fresh   bool          // nothing is on disk yet
	records [][]byte      // of the outstanding write
	replace bool
	then    func() // runs when the write is on disk
	written int    // records since the last compaction, including earlier processes

	disk    epoch.Health
	retryAt time.Time // when a failing or slow disk is tried again
	hungAt  time.Time // when the outstanding write has taken T
	wrote   time.Time // when the last write ended
}

// idle is how long a leader may go without a write. Then it tests its disk: without changes it
// would not detect that the disk hangs.
const idle = 30 * time.Second

// retryPause is the time between two attempts to write to a failing disk.
const retryPause = time.Second

// keepRecords is how many records are written before they are compacted.
const keepRecords = 256

// write starts a write of records, and calls then once they are on disk.
func (c *Core) write(records [][]byte, replace bool, then func()) {
	c.records, c.replace, c.then = records, replace, then
	c.attempt()
}

func (c *Core) attempt() {
	c.disk.Begin()
	c.retryAt, c.hungAt = time.Time{}, c.now.Add(c.t)
	c.do(election.Action{Kind: election.Append, Records: c.records, Replace: c.replace})
}

// busy reports whether a write is outstanding.
func (c *Core) busy() bool { return c.records != nil }

// saved handles the result of a write.
func (c *Core) saved(err error) {
	if !c.disk.Busy() {
		return
	}
	slow := c.disk.End(err)
	c.hungAt, c.wrote = time.Time{}, c.now
	if err != nil {
		c.retryAt = c.now.Add(retryPause)
		c.diskLost("its disk refuses the log")
		return
	}
	c.slowly(slow)
	c.written += len(c.records)
	if c.replace {
		c.written = 0
	}
	then := c.then
	c.records, c.then = nil, nil
	if then != nil {
		then()
	}
	if !c.halted {
		c.caughtUp()
	}
}

// slowly records that the disk works, and whether the write took longer than T. After a slow write
// this member is no candidate until a write, for which it tests its disk, takes less, or until no
// member has led for 2·T: see [epoch.Health].
func (c *Core) slowly(on bool) {
	if on && !c.disk.Slow() {
		c.note("cannot save", election.None, election.Token{}, "a write took longer than T")
	}
	if c.disk.Work(on); on {
		c.retryAt = c.now.Add(retryPause)
	}
}

// tryDisk writes the hard state again, to test the disk.
func (c *Core) tryDisk() {
	c.retryAt = time.Time{}
	if !c.busy() && !c.halted && c.hard != nil {
		c.write([][]byte{protoRecord(recordHard, c.hard)}, false, nil)
	}
}

// tryAt returns when to test the disk; zero: not at all.
func (c *Core) tryAt() time.Time {
	if c.term() != 0 && !c.over && !c.busy() && !c.still && c.retryAt.IsZero() {
		return c.wrote.Add(idle)
	}
	return c.retryAt
}

func (c *Core) dueDisk() {
	switch {
	case !c.passed(c.tryAt()):
	case c.disk.Failing():
		c.attempt()
	default:
		c.tryDisk()
	}
	if c.passed(c.hungAt) {
		c.hungAt = time.Time{}
		c.disk.Hang()
		c.diskLost("its disk has not answered for T")
	}
}

// diskLost makes a leader resign when its disk fails. Its work stops first.
func (c *Core) diskLost(why string) { c.leave(0, why) }

// advance takes from raft what has to be written, sent and applied, until raft has no more or a
// write is outstanding.
func (c *Core) advance() {
	if c.node != nil && !c.busy() && !c.halted && (c.selfDue || len(c.noted) > 0) {
		c.noteDisks()
	}
	for c.node != nil && !c.busy() && !c.halted && c.node.HasReady() {
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
	if c.node != nil && !c.busy() && !c.halted && c.written > keepRecords {
		c.compact()
	}
}

// sendEarly separates messages that may be sent during the write from those that have to wait. A
// leader's entries may be sent: it counts its own copy only once that is on disk, and its term
// already is (Raft dissertation, 10.2.1). A request for votes may be sent if the log is on disk: it
// binds only the voters, and a candidate that is elected meanwhile sends nothing before its term is
// on disk (see turned).
func (c *Core) sendEarly(ready raft.Ready) (wait, early []*pb.Message) {
	hard := ready.HardState
	leads := c.status().RaftState == raft.StateLeader && (raft.IsEmptyHardState(hard) || hard.GetTerm() == c.hard.GetTerm())
	inLog := len(ready.Entries) == 0 && raft.IsEmptySnap(ready.Snapshot)
	for _, m := range ready.Messages {
		if m.GetType() == pb.MsgApp && leads && m.GetTerm() == c.hard.GetTerm() || m.GetType() == pb.MsgVote && inLog {
			early = append(early, m)
		} else {
			wait = append(wait, m)
		}
	}
	return wait, early
}

// forgetful reports whether entries contain a change of the members that is not committed according
// to the disk. A member that applied it and lost it in a restart would count the old majority.
func (c *Core) forgetful(committed []*pb.Entry) bool {
	return slices.ContainsFunc(committed, func(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal && e.GetIndex() > c.safe })
}

func (c *Core) recordsOf(ready raft.Ready) (records [][]byte) {
	if !raft.IsEmptySnap(ready.Snapshot) {
		records = append(records, protoRecord(recordSnapshot, ready.Snapshot))
	}
	for _, e := range ready.Entries {
		records = append(records, protoRecord(recordEntry, e))
	}
	return append(records, protoRecord(recordHard, c.hardOf(ready)))
}

// hardOf returns raft's state after a Ready, which may leave it unchanged.
func (c *Core) hardOf(ready raft.Ready) *pb.HardState {
	if raft.IsEmptyHardState(ready.HardState) {
		return c.hard
	}
	return ready.HardState
}

// perform does the work of a Ready, which is on disk now.
func (c *Core) perform(ready raft.Ready) {
	defer c.caught()
	var err error
	if !raft.IsEmptySnap(ready.Snapshot) {
		err = c.takeSnapshot(ready.Snapshot)
	}
	if !raft.IsEmptyHardState(ready.HardState) {
		c.hard = ready.HardState
		err = errors.Join(err, c.storage.SetHardState(c.hard))
	}
	if err = errors.Join(err, c.storage.Append(ready.Entries)); err != nil {
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

func (c *Core) takeSnapshot(s *pb.Snapshot) error {
	if err := c.storage.ApplySnapshot(s); err != nil {
		return err
	}
	r, err := decodeRoster(s.GetData(), s.GetMetadata().GetConfState())
	if err != nil {
		return err
	}
	c.roster, c.applied = r, s.GetMetadata().GetIndex()
	c.reseat()
	return nil
}

// apply applies a committed entry to the list of members.
func (c *Core) apply(e *pb.Entry) {
	defer func() { c.applied = e.GetIndex() }() // only then does a snapshot contain it
	c.roster.link(e.GetTerm(), e.GetData())
	if e.GetTerm() == c.leader.term && c.leader.term != 0 {
		c.settled = true
	}
	if e.GetType() != pb.EntryConfChangeV2 && e.GetType() != pb.EntryConfChange {
		return
	}
	var change pb.ConfChangeV2
	if err := proto.Unmarshal(e.GetData(), &change); err != nil {
		c.halt(err)
		return
	}
	conf := c.node.ApplyConfChange(&change)
	c.roster.Changed = e.GetIndex()
	c.changed(&change, conf)
}

// compact replaces everything that has been applied by a single snapshot.
func (c *Core) compact() {
	first, _ := c.storage.FirstIndex()
	if c.applied >= first {
		if _, err := c.storage.CreateSnapshot(c.applied, c.roster.conf, encode(c.roster)); err != nil {
			c.halt(err)
			return
		}
		if err := c.storage.Compact(c.applied); err != nil {
			c.halt(err)
			return
		}
	}
	c.written = 0
	c.write(c.all(), true, nil)
}

// quiet is raft's logger. It drops all messages, for the trace shows the same, and panics when raft
// gives up.
type quiet struct{}

func (quiet) Debug(...any)              {}
func (quiet) Debugf(string, ...any)     {}
func (quiet) Error(...any)              {}
func (quiet) Errorf(string, ...any)     {}
func (quiet) Info(...any)               {}
func (quiet) Infof(string, ...any)      {}
func (quiet) Warning(...any)            {}
func (quiet) Warningf(string, ...any)   {}
func (quiet) Fatal(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Fatalf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }
func (quiet) Panic(v ...any)            { panic(fmt.Sprint(v...)) }
func (quiet) Panicf(f string, v ...any) { panic(fmt.Sprintf(f, v...)) }

// snapshots is a storage that makes its snapshots at the time of the request, so that a snapshot
// contains the member that it is for.
type snapshots struct {
	*raft.MemoryStorage
	c *Core
}

// Snapshot returns a snapshot of everything that has been applied.
func (s snapshots) Snapshot() (*pb.Snapshot, error) {
	snap, err := s.MemoryStorage.Snapshot()
	if err != nil || s.c.applied <= snap.GetMetadata().GetIndex() {
		return snap, err
	}
	return s.MemoryStorage.CreateSnapshot(s.c.applied, s.c.roster.conf, encode(s.c.roster))
}
