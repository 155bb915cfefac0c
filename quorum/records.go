package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// Records on disk begin with a byte that says what they are; the rest is protocol
// buffers of raft's own, but for who: CBOR. Later ones outweigh earlier ones, so that
// a write that is tried again does no harm.
const (
	recordSelf     = 'i' // who the disk belongs to
	recordSnapshot = 's' // raft's snapshot: nothing before it counts
	recordHard     = 'h' // raft's term, vote and commit
	recordEntry    = 'e' // raft's entry
	recordDisk     = 'd' // which disk another member's number belongs to
)

// self is who a disk belongs to.
type self struct {
	Number   uint64        `cbor:"1,keyasint"` // raft's
	ID       election.ID   `cbor:"2,keyasint"`
	Disk     uint64        `cbor:"3,keyasint"`           // names this disk
	Digest   uint64        `cbor:"4,keyasint,omitempty"` // of the list that the cluster began with; 0: it has joined
	Founders []election.ID `cbor:"5,keyasint,omitempty"` // that list
	Settled  bool          `cbor:"6,keyasint,omitempty"` // more than half of the others know this disk

	Promise time.Duration `cbor:"7,keyasint,omitempty"` // the longest that a promise of this disk may last; 0: of an earlier release
}

// disk says which disk a number belongs to: the first that is heard of.
type disk struct {
	Number uint64 `cbor:"1,keyasint"`
	Disk   uint64 `cbor:"2,keyasint"`
}

func record(kind byte, body []byte) []byte { return append([]byte{kind}, body...) }

func protoRecord(kind byte, m proto.Message) []byte {
	out, err := proto.MarshalOptions{}.MarshalAppend([]byte{kind}, m)
	if err != nil {
		panic(err) // raft's own message
	}
	return out
}

// stored is what a disk holds.
type stored struct {
	self     self
	snapshot *pb.Snapshot
	hard     *pb.HardState
	entries  []*pb.Entry
	disks    map[uint64]uint64
}

var errBroken = errors.New("the log does not hold together: give this member an empty data directory after it has been removed, and add it again")

// load reads what Append has written. No records: nil.
func load(records [][]byte) (*stored, error) {
	if len(records) == 0 {
		return nil, nil
	}
	s := &stored{hard: &pb.HardState{}, disks: map[uint64]uint64{}}
	for i, r := range records {
		if err := s.take(r); err != nil {
			return nil, fmt.Errorf("record %d of %d: %w", i+1, len(records), err)
		}
	}
	return s, s.check()
}

func (s *stored) take(r []byte) error {
	if len(r) == 0 {
		return errBroken
	}
	body := r[1:]
	switch r[0] {
	case recordSelf:
		return decoding.Unmarshal(body, &s.self)
	case recordDisk:
		var d disk
		if err := decoding.Unmarshal(body, &d); err != nil {
			return err
		}
		s.disks[d.Number] = d.Disk
	case recordHard:
		s.hard = &pb.HardState{}
		return proto.Unmarshal(body, s.hard)
	case recordSnapshot:
		snap := &pb.Snapshot{}
		if err := proto.Unmarshal(body, snap); err != nil {
			return err
		}
		if s.snapshot == nil || snap.GetMetadata().GetIndex() > s.snapshot.GetMetadata().GetIndex() {
			s.snapshot, s.entries = snap, nil
		}
	case recordEntry:
		e := &pb.Entry{}
		if err := proto.Unmarshal(body, e); err != nil {
			return err
		}
		return s.append(e)
	default:
		return fmt.Errorf("of kind %q, which a later version may have written: %w", r[0], errBroken)
	}
	return nil
}

// append puts an entry at its place: what was there and behind it is void.
func (s *stored) append(e *pb.Entry) error {
	base := s.snapshot.GetMetadata().GetIndex()
	if e.GetIndex() <= base {
		return nil
	}
	at := e.GetIndex() - base - 1
	if at > uint64(len(s.entries)) {
		return errBroken
	}
	s.entries = append(s.entries[:at], e)
	return nil
}

// check refuses what raft would panic on.
func (s *stored) check() error {
	if s.self.Number == 0 || s.self.ID == election.None {
		return errBroken
	}
	if s.snapshot == nil {
		if len(s.entries) > 0 || s.hard.GetCommit() > 0 {
			return errBroken
		}
		return nil
	}
	meta := s.snapshot.GetMetadata()
	if _, err := decodeRoster(s.snapshot.GetData(), meta.GetConfState()); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	last, term := meta.GetIndex(), meta.GetTerm()
	for _, e := range s.entries {
		if e.GetTerm() < term {
			return errBroken
		}
		last, term = e.GetIndex(), e.GetTerm()
	}
	if s.hard.GetTerm() < term || s.hard.GetCommit() > last {
		return errBroken
	}
	if s.hard.GetCommit() < meta.GetIndex() {
		s.hard.Commit = new(meta.GetIndex())
	}
	return nil
}

// storage is what raft reads the same from.
func (s *stored) storage() (*raft.MemoryStorage, error) {
	m := raft.NewMemoryStorage()
	if s.snapshot != nil {
		if err := m.ApplySnapshot(s.snapshot); err != nil {
			return nil, err
		}
	}
	if err := m.SetHardState(s.hard); err != nil {
		return nil, err
	}
	return m, m.Append(s.entries)
}

// all are the records that say the same as everything before.
func (c *Core) all() [][]byte {
	s := &stored{self: c.me, disks: c.disks, hard: c.hard}
	s.snapshot, _ = c.storage.Snapshot() // a MemoryStorage has it
	from, _ := c.storage.FirstIndex()
	to, _ := c.storage.LastIndex()
	if from <= to {
		s.entries, _ = c.storage.Entries(from, to+1, noLimit)
	}
	return s.records()
}

// records are those that say what s does, and no more.
func (s *stored) records() [][]byte {
	records := [][]byte{record(recordSelf, encode(s.self))}
	for _, n := range sortedKeys(s.disks) {
		records = append(records, record(recordDisk, encode(disk{n, s.disks[n]})))
	}
	if !raft.IsEmptySnap(s.snapshot) {
		records = append(records, protoRecord(recordSnapshot, s.snapshot))
	}
	records = append(records, protoRecord(recordHard, s.hard))
	for _, e := range s.entries {
		records = append(records, protoRecord(recordEntry, e))
	}
	return records
}

const noLimit = 1 << 62

// digest names a list of members.
func digest(r roster) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, s := range r.Seats {
		for _, b := range bytes.Join([][]byte{[]byte(s.ID), {0}}, nil) {
			h = (h ^ uint64(b)) * 1099511628211
		}
	}
	return max(h, 1)
}

// Durable is the term that a log holds: no message of a higher one may have been sent.
func (c *Core) Durable(records [][]byte) (term uint64) {
	for i := len(records) - 1; i >= 0; i-- {
		if r := records[i]; len(r) > 0 && r[0] == recordHard {
			return termOf(r[1:])
		}
	}
	return 0
}

// termOf reads the term of raft's hard state, its first field, and nothing else of it.
func termOf(b []byte) uint64 {
	if number, kind, n := protowire.ConsumeTag(b); n > 0 && number == 1 && kind == protowire.VarintType {
		term, _ := protowire.ConsumeVarint(b[n:])
		return term
	}
	hard := &pb.HardState{}
	_ = proto.Unmarshal(b, hard) // what does not parse has no term
	return hard.GetTerm()
}
