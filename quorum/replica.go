package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/machine"
)

// identity is the member that a disk belongs to, and which disk each number belongs to, by the list
// of members and by cards. See cards.go.
type identity struct {
	*ground
	roster   roster
	me       self
	disks    map[uint64]uint64 // the disk of each number that is not this member's
	selfDue  bool              // me has changed and has to be written
	unsigned bool              // me.Promise is not on disk yet: no promise is given before
}

// newDisk names a new disk.
func (c *identity) newDisk() uint64 { return c.random.Uint64N(election.MaxVersion-1) + 1 }

// moved reports whether a process that asks to join is a member by its number and its disk. If no
// card has shown the member's disk yet, the number is enough.
func (c *identity) moved(e election.Member) bool {
	s := c.roster.of(e.ID)
	if s == nil || s.Number != e.Number {
		return false
	}
	disk := c.diskOf(s.Number)
	return disk == 0 || disk == e.Disk
}

// diskOf returns the disk that a number belongs to, by the log or by a card; 0: not known yet.
func (c *identity) diskOf(number uint64) uint64 {
	if s := c.roster.by(number); s != nil && s.Disk != 0 {
		return s.Disk
	}
	return c.disks[number]
}

// founding returns the digest of the list that the cluster began with; 0: not known.
func (c *identity) founding() uint64 {
	if c.me.Digest != 0 {
		return c.me.Digest
	}
	return c.roster.Founded
}

// ackData returns to, from and this member's own time, and the promise of an earlier process while
// that is longer than T.
func (c *identity) ackData(to uint64) []byte {
	b := varints(to, c.me.Number, uint64(c.stamp()))
	if c.me.Promise > c.t {
		b = binary.AppendUvarint(b, uint64(c.me.Promise))
	}
	return b
}

func (c *identity) readAck(m *election.Message) (from uint64, clock int64, promise time.Duration, ok bool) {
	v, ok := readVarints(m.Data, 3)
	if !ok || v[0] != c.me.Number {
		return 0, 0, 0, false
	}
	if long, ok := readVarints(m.Data, 4); ok {
		promise = time.Duration(min(long[3], uint64(maxPromise)))
	}
	return v[1], int64(v[2]), promise, true
}

// warnEven warns of two or four voters: they tolerate no more failures than one or three do.
func (c *identity) warnEven() {
	if n := len(c.roster.conf.GetVoters()); (n == 2 || n == 4) && len(c.roster.conf.GetVotersOutgoing()) == 0 {
		c.do(election.Action{Kind: election.Warn, Err: fmt.Errorf("%d members vote: they survive the death of %d, as %d do; let an odd number vote", n, n/2-1, n-1)})
	}
}

// recasts reports whether the log has a change of the voters after an index.
func (c *replica) recasts(after uint64) bool {
	if c.storage == nil {
		return false
	}
	last, _ := c.storage.LastIndex()
	if last <= after {
		return false
	}
	tail, err := c.storage.Entries(after+1, last+1, noLimit)
	return err != nil || slices.ContainsFunc(tail, func(e *pb.Entry) bool {
		return e.GetType() != pb.EntryNormal
	})
}

// replica is this member's copy of the log: raft, what raft reads, and how much of it is on disk and
// applied. It is the only access to raft: what that receives, and what is refused before.
type replica struct {
	identity
	node    *raft.RawNode // nil: it belongs to no cluster yet
	storage *raft.MemoryStorage
	applied uint64
	hard    *pb.HardState // of raft; on disk, except a commit index that need not be
	safe    uint64        // the commit index on disk
	ahead   uint64        // the last entry that was proposed here, or given to the disk
	unsure  bool          // since its start the log has had changes of the voters that are not applied
}

// restore continues with the contents of the disk.
func (c *replica) restore(s *stored) error {
	if s.self.ID != c.cfg.Self.ID {
		return fmt.Errorf("the log in the data directory belongs to member %s, and this is member %s: give each member its own", s.self.ID, c.cfg.Self.ID)
	}
	if err := sameList(&c.cfg, s.self); err != nil {
		return err
	}
	storage, err := s.storage()
	if err != nil {
		return err
	}
	c.me, c.disks, c.hard, c.storage = s.self, s.disks, s.hard, storage
	if s.snapshot != nil {
		meta := s.snapshot.GetMetadata()
		if c.roster, err = decodeRoster(s.snapshot.GetData(), meta.GetConfState()); err != nil {
			return err
		}
		c.applied = meta.GetIndex()
	}
	c.safe = c.hard.GetCommit()
	return nil
}

// sameList refuses a configured list that differs from the list that the cluster began with:
// members would count majorities of different sets.
func sameList(c *machine.Config, s self) error {
	if c.Joins || len(s.Founders) == 0 || len(c.Members) == 0 {
		return nil
	}
	r := first(configuredMembers(c))
	if digest(r) == s.Digest {
		return nil
	}
	var ids []election.ID
	for _, seat := range r.Seats {
		ids = append(ids, seat.ID)
	}
	return fmt.Errorf("the list of members is another than at the first start (%s): members come and go by batuta members add and remove, or through Config.Join; start with the first list, %s", difference(ids, s.Founders), join(s.Founders))
}

// configuredMembers returns the configured members, this member included.
func configuredMembers(c *machine.Config) []election.Member {
	list := c.Members
	if !slices.ContainsFunc(list, func(m election.Member) bool { return m.ID == c.Self.ID }) {
		list = append(slices.Clone(list), election.Member{Rank: c.Self, Address: c.Address})
	}
	return list
}

// found creates a cluster of the configured members. Its epochs are above those that this member has
// on disk of another algorithm. No message is sent before that is on disk: see start.
func (c *replica) found() error {
	members := configuredMembers(&c.cfg)
	if len(members) > MaxMembers {
		return fmt.Errorf("%d members: at most %d vote and learn in one cluster", len(members), MaxMembers)
	}
	c.roster = first(members)
	c.me = self{Number: c.roster.of(c.cfg.Self.ID).Number, ID: c.cfg.Self.ID, Disk: c.newDisk(), Digest: digest(c.roster), Promise: c.t}
	for _, s := range c.roster.Seats {
		c.me.Founders = append(c.me.Founders, s.ID)
	}
	c.me.Settled = len(c.roster.Seats) == 1
	c.roster.Founded = c.me.Digest
	c.storage = raft.NewMemoryStorage()
	snapshot := &pb.Snapshot{Data: encode(c.roster), Metadata: &pb.SnapshotMetadata{
		Index: new(uint64(1)), Term: new(uint64(1)), ConfState: c.roster.conf}}
	if err := c.storage.ApplySnapshot(snapshot); err != nil {
		return err
	}
	c.hard = &pb.HardState{Term: new(max(1, c.cfg.State.Token.Epoch)), Vote: new(uint64(0)), Commit: new(uint64(1))}
	c.applied = 1
	return c.storage.SetHardState(c.hard)
}

// open creates raft's node from the contents of the storage.
func (c *replica) open() (err error) {
	if c.node, err = newNode(c.me.Number, snapshots{c.storage, c}, c.applied); err != nil {
		return err
	}
	return c.replay()
}

func newNode(number uint64, storage raft.Storage, applied uint64) (*raft.RawNode, error) {
	return raft.NewRawNode(&raft.Config{
		ID: number, Storage: storage, Applied: applied,
		// The node is never ticked: raft's random election timeout is not used.
		ElectionTick: 10, HeartbeatTick: 1,
		MaxSizePerMsg: 64 << 10, MaxInflightMsgs: 16, MaxUncommittedEntriesSize: 1 << 20,
		PreVote: true, DisableProposalForwarding: true, StepDownOnRemoval: true,
		Logger: quiet{},
	})
}

func (c *replica) status() raft.BasicStatus { return c.node.BasicStatus() }

// lastIndex returns the index of the last entry on disk. This member has acknowledged no later entry.
func (c *replica) lastIndex() uint64 {
	last, _ := c.storage.LastIndex() // a MemoryStorage always has it
	return last
}

// changing reports whether this leader has an entry that is not applied yet: proposed, on its way to the
// disk, or on disk. Each entry after the first of its term changes the members.
func (c *replica) changing() bool { return c.applied < max(c.ahead, c.lastIndex()) }

// errUnsound is for a message that no honest member would send.
var errUnsound = errors.New("no member of this cluster would send that")

// check refuses a message on which raft would panic.
func (c *replica) check(m *pb.Message) error {
	if m.GetTerm() == 0 || m.GetTerm() > election.MaxEpoch || m.GetIndex() > election.MaxEpoch || m.GetCommit() > election.MaxEpoch || len(m.GetResponses()) > 0 {
		return errUnsound
	}
	switch m.GetType() {
	case pb.MsgApp:
		return checkEntries(m)
	case pb.MsgAppResp:
		if !m.GetReject() && m.GetTerm() == c.status().GetTerm() && m.GetIndex() > max(c.lastIndex(), c.ahead) || m.GetRejectHint() > election.MaxEpoch {
			return errUnsound
		}
	case pb.MsgSnap:
		meta := m.GetSnapshot().GetMetadata()
		if meta.GetIndex() == 0 || meta.GetIndex() > election.MaxEpoch || meta.GetTerm() == 0 || meta.GetTerm() > m.GetTerm() {
			return errUnsound
		}
		_, err := decodeRoster(m.GetSnapshot().GetData(), meta.GetConfState())
		return err
	default:
		if len(m.GetEntries()) > 0 || m.GetSnapshot() != nil {
			return errUnsound
		}
	}
	return nil
}

// checkEntries requires consecutive entries, with terms that do not decrease.
func checkEntries(m *pb.Message) error {
	index, term := m.GetIndex(), m.GetLogTerm()
	if (index == 0) != (term == 0) || term > m.GetTerm() {
		return errUnsound
	}
	for _, e := range m.GetEntries() {
		index++
		if e.GetIndex() != index || e.GetTerm() < term || e.GetTerm() == 0 || e.GetTerm() > m.GetTerm() || checkEntry(e) != nil {
			return errUnsound
		}
		term = e.GetTerm()
	}
	return nil
}

// Settled reports whether this member takes part.
func (c *replica) Settled() bool { return c.node != nil && c.me.Settled }

// removed reports whether this member's own log has removed it.
func (c *replica) removed() bool {
	return len(c.roster.Seats) > 0 && c.roster.of(c.cfg.Self.ID) == nil
}

// take applies a committed entry to the roster. Raft may take a snapshot while it applies a change:
// the roster and the index are still those of the entry before.
func (c *replica) take(e *pb.Entry) (changed bool, err error) {
	var change pb.ConfChangeV2
	var conf *pb.ConfState
	if e.GetType() != pb.EntryNormal {
		if err := proto.Unmarshal(e.GetData(), &change); err != nil {
			return false, err
		}
		conf = c.node.ApplyConfChange(&change)
	}
	c.roster.link(e.GetTerm(), e.GetData())
	c.applied = e.GetIndex()
	if conf == nil {
		return false, nil
	}
	c.roster.Changed = e.GetIndex()
	return true, c.roster.change(&change, conf)
}

// replay applies what is committed according to the disk. No part of that happens to this process.
func (c *replica) replay() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = stuck(r)
		}
	}()
	for c.node.HasReady() {
		ready := c.node.Ready()
		for _, e := range ready.CommittedEntries {
			if _, err := c.take(e); err != nil {
				return err
			}
		}
		c.node.Advance(ready)
	}
	return nil
}

// stuck is the error of a member for which raft has panicked with r.
func stuck(r any) error {
	return fmt.Errorf("raft cannot go on with its log: %v: remove this member, and add it again with an empty data directory", r)
}

// takeSnapshot takes the place of the log and of the list of members.
func (c *replica) takeSnapshot(s *pb.Snapshot) error {
	if err := c.storage.ApplySnapshot(s); err != nil {
		return err
	}
	r, err := decodeRoster(s.GetData(), s.GetMetadata().GetConfState())
	if err != nil {
		return err
	}
	c.roster, c.applied = r, s.GetMetadata().GetIndex()
	return nil
}

// keep takes over the state and the entries of a Ready, which are on disk now.
func (c *replica) keep(ready raft.Ready) (err error) {
	if !raft.IsEmptyHardState(ready.HardState) {
		c.hard = ready.HardState
		err = c.storage.SetHardState(c.hard)
	}
	return errors.Join(err, c.storage.Append(ready.Entries))
}

// shorten puts a single snapshot in place of the entries that have been applied.
func (c *replica) shorten() error {
	if first, _ := c.storage.FirstIndex(); c.applied < first {
		return nil
	}
	if _, err := (snapshots{c.storage, c}).Snapshot(); err != nil { // a member may have been sent one at this index
		return err
	}
	return c.storage.Compact(c.applied)
}

// sendEarly separates messages that may be sent during the write from those that have to wait. A
// leader's entries may be sent: it counts its own copy only once that is on disk, and its term
// already is (Raft dissertation, 10.2.1). A request for votes may be sent if the log is on disk: it
// binds only the voters, and a candidate that is elected meanwhile sends nothing before its term is
// on disk (see turned).
func (c *replica) sendEarly(ready raft.Ready) (wait, early []*pb.Message) {
	leads := c.status().RaftState == raft.StateLeader
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

// forgetful reports whether entries contain a change of the members: that it is committed has to be on
// disk first. A member that applied it and lost it in a restart would count the old majority.
func (c *replica) forgetful(committed []*pb.Entry) bool {
	return slices.ContainsFunc(committed, func(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal })
}

func (c *replica) recordsOf(ready raft.Ready) (records [][]byte) {
	if !raft.IsEmptySnap(ready.Snapshot) {
		records, c.ahead = append(records, protoRecord(recordSnapshot, ready.Snapshot)), ready.Snapshot.GetMetadata().GetIndex()
	}
	for _, e := range ready.Entries {
		records, c.ahead = append(records, protoRecord(recordEntry, e)), e.GetIndex()
	}
	return append(records, protoRecord(recordHard, c.hardOf(ready)))
}

// hardOf returns raft's state after a Ready, which may leave it unchanged.
func (c *replica) hardOf(ready raft.Ready) *pb.HardState {
	if raft.IsEmptyHardState(ready.HardState) {
		return c.hard
	}
	return ready.HardState
}

// Awaits returns the kind of answer that this member waits for while it asks for votes, or empty.
// The answers received so far count, but raft does not expose them.
func (c *replica) Awaits() election.MessageKind {
	switch c.status().RaftState {
	case raft.StatePreCandidate:
		return kindPreVoteAnswer
	case raft.StateCandidate:
		return kindVoteAnswer
	default:
		return ""
	}
}

// AppendDisk appends the state that records on disk amount to, independent of how they were
// written.
func (c *replica) AppendDisk(b []byte, records [][]byte) []byte {
	if s, err := load(records); err == nil && s != nil {
		records = s.records()
	}
	for _, r := range records {
		b = append(b, r...)
	}
	return b
}

// all returns records that replace all records before.
func (c *replica) all() [][]byte {
	s := &stored{self: c.me, disks: c.disks, hard: c.hard}
	s.snapshot, _ = c.storage.Snapshot() // a MemoryStorage always has it
	from, _ := c.storage.FirstIndex()
	to, _ := c.storage.LastIndex()
	if from <= to {
		s.entries, _ = c.storage.Entries(from, to+1, noLimit)
	}
	return s.records()
}

// Durable returns the term of a log: no message with a higher term may have been sent.
func (c *replica) Durable(records [][]byte) (term uint64) {
	for i := len(records) - 1; i >= 0; i-- {
		if r := records[i]; len(r) > 0 && r[0] == recordHard {
			return termOf(r[1:])
		}
	}
	return 0
}

// current reports whether a member has the whole log.
func (c *replica) current(number uint64) (whole bool) {
	last := c.lastIndex()
	c.node.WithProgress(func(id uint64, _ raft.ProgressType, pr tracker.Progress) {
		if id == number {
			whole = pr.Match >= last
		}
	})
	return whole
}

// Applied returns the index up to which this member has applied the log, and a checksum of all
// entries up to there.
func (c *replica) Applied() (index, chain uint64) { return c.applied, c.roster.Chain }

// Committed returns the index up to which this member knows the log to be committed. It applies that
// once its disk has recorded it.
func (c *replica) Committed() uint64 {
	if c.node == nil {
		return c.applied
	}
	return max(c.applied, c.status().GetCommit())
}

// Voters returns the voters: two sets while the configuration changes, none while this member
// belongs to no cluster.
func (c *replica) Voters() [][]election.ID {
	var sets [][]election.ID
	for _, numbers := range c.roster.majorities() {
		ids := make([]election.ID, 0, len(numbers))
		for _, n := range numbers {
			if s := c.roster.by(n); s != nil {
				ids = append(ids, s.ID)
			}
		}
		if len(ids) > 0 {
			sets = append(sets, ids)
		}
	}
	return sets
}

// forget makes raft forget its leader, so that it may vote in the same term.
func (c *replica) forget() {
	if st := c.status(); st.RaftState == raft.StateFollower && st.Lead != raft.None {
		_ = c.node.ForgetLeader() // it refuses only on a follower that reads by lease
	}
}

// older reports whether a candidate's log ends before this member's, so that it gets no vote.
func (c *replica) older(m *pb.Message) bool {
	last := c.lastIndex()
	term, err := c.storage.Term(last)
	return err == nil && (m.GetLogTerm() < term || m.GetLogTerm() == term && m.GetIndex() < last)
}

// snapshots is a storage that makes its snapshots at the time of the request, so that a snapshot
// contains the member that it is for.
type snapshots struct {
	*raft.MemoryStorage
	c *replica
}

// Snapshot returns a snapshot of everything that has been applied.
func (s snapshots) Snapshot() (*pb.Snapshot, error) {
	snap, err := s.MemoryStorage.Snapshot()
	if err != nil || s.c.applied <= snap.GetMetadata().GetIndex() {
		return snap, err
	}
	return s.MemoryStorage.CreateSnapshot(s.c.applied, s.c.roster.conf, encode(s.c.roster))
}
