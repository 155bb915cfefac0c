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

// writer is what goes to disk: one write at a time. No message has what is not on disk.
type writer struct {
	hard    *pb.HardState // of raft; on disk, but for a commit that needs not be
	safe    uint64        // up to where the log is committed, as the disk says
	fresh   bool          // nothing is on disk yet
	records [][]byte      // of the outstanding write
	replace bool
	then    func() // when that is safe
	written int    // records since the last compaction, those of earlier lives too

	disk    epoch.Health
	retryAt time.Time // when a failing or slow disk is tried again
	hungAt  time.Time // when the outstanding write has taken T
	wrote   time.Time // when the last write ended
}

// idle is for how long a leader writes nothing. Then it tries its disk: it would not notice
// otherwise that it hangs, as long as nothing changes.
const idle = 30 * time.Second

// retryPause is how long a failing disk is left alone.
const retryPause = time.Second

// keepRecords is how many records are written before they are compacted.
const keepRecords = 256

// write asks for records to be made safe, and goes on with then.
func (c *Core) write(records [][]byte, replace bool, then func()) {
	c.records, c.replace, c.then = records, replace, then
	c.attempt()
}

func (c *Core) attempt() {
	c.disk.Begin()
	c.retryAt, c.hungAt = time.Time{}, c.now.Add(c.t)
	c.do(election.Action{Kind: election.Append, Records: c.records, Replace: c.replace})
}

// busy reports whether something is still to be made safe.
func (c *Core) busy() bool { return c.records != nil }

// saved takes in how a write has ended.
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

// slowly notes that the disk works, and whether the write took longer than T. This member then
// is no candidate before a write takes less, for which it tries its disk, or until no member
// has led for 2·T: see [epoch.Health].
func (c *Core) slowly(on bool) {
	if on && !c.disk.Slow() {
		c.note("cannot save", election.None, election.Token{}, "a write took longer than T")
	}
	if c.disk.Work(on); on {
		c.retryAt = c.now.Add(retryPause)
	}
}

// tryDisk writes what the disk has already.
func (c *Core) tryDisk() {
	c.retryAt = time.Time{}
	if !c.busy() && !c.halted && c.hard != nil {
		c.write([][]byte{protoRecord(recordHard, c.hard)}, false, nil)
	}
}

// tryAt is when the disk is to be tried; zero: it is not.
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

// diskLost has a leader give up the lead when its disk fails. Its work stops first.
func (c *Core) diskLost(why string) { c.leave(0, why) }

// advance takes from raft what is to be written, sent and applied, until it has no
// more or a write is outstanding.
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

// sendEarly parts what may be sent while the write is under way from what has to wait. A
// leader's entries may: it counts its own copy only when that is safe, and its term is on
// disk (Raft dissertation, 10.2.1). So may a request for votes by a log that is on disk: it
// binds only the voters, and a candidate that is elected meanwhile sends nothing before its
// term is safe (see turned).
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

// forgetful reports whether a change of the members is among entries of which the disk does
// not say yet that they are committed. A member that counted by it, and forgot it in a
// restart, would count the majority of before.
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

// hardOf is raft's state with a Ready, which may leave it as it was.
func (c *Core) hardOf(ready raft.Ready) *pb.HardState {
	if raft.IsEmptyHardState(ready.HardState) {
		return c.hard
	}
	return ready.HardState
}

// perform does what a Ready stands for, now that it is safe.
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

// apply takes a committed entry into the list of members.
func (c *Core) apply(e *pb.Entry) {
	defer func() { c.applied = e.GetIndex() }() // only then does a snapshot hold it
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

// compact puts one snapshot in the place of everything that has been applied.
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

// quiet is raft's logger: what it would say is seen in the trace. It panics when
// raft gives up.
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

// snapshots is the storage with a snapshot of just now: one that is asked for has to
// name whom it is for.
type snapshots struct {
	*raft.MemoryStorage
	c *Core
}

// Snapshot is of all that has been applied.
func (s snapshots) Snapshot() (*pb.Snapshot, error) {
	snap, err := s.MemoryStorage.Snapshot()
	if err != nil || s.c.applied <= snap.GetMetadata().GetIndex() {
		return snap, err
	}
	return s.MemoryStorage.CreateSnapshot(s.c.applied, s.c.roster.conf, encode(s.c.roster))
}
