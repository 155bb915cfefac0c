package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// Records on disk begin with a byte for their kind. The rest is raft's own protocol buffers, except
// for self and disk: CBOR. Later records replace earlier records, so that a write can be repeated.
const (
	recordSelf     = 'i' // the member that the disk belongs to
	recordSnapshot = 's' // raft's snapshot: nothing before it counts
	recordHard     = 'h' // raft's term, vote and commit
	recordEntry    = 'e' // raft's entry
	recordDisk     = 'd' // the disk that a peer's number belongs to
)

// self identifies the member that a disk belongs to.
type self struct {
	Number   uint64        `cbor:"1,keyasint"` // in raft
	ID       election.ID   `cbor:"2,keyasint"`
	Disk     uint64        `cbor:"3,keyasint"`           // names this disk
	Digest   uint64        `cbor:"4,keyasint,omitempty"` // of the list that the cluster began with; 0: it has joined
	Founders []election.ID `cbor:"5,keyasint,omitempty"` // that list
	Settled  bool          `cbor:"6,keyasint,omitempty"` // more than half of the peers have noted this disk

	Promise time.Duration `cbor:"7,keyasint,omitempty"` // the longest that a promise of this disk may last; 0: of an earlier release
}

// disk assigns a disk to a number: the first that a card showed.
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

// stored is the content of a disk.
type stored struct {
	self     self
	snapshot *pb.Snapshot
	hard     *pb.HardState
	entries  []*pb.Entry
	disks    map[uint64]uint64
}

var errBroken = errors.New("the log does not hold together: give this member an empty data directory after it has been removed, and add it again")

// load reads what Append has written; nil without records.
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
		return encoding.Unmarshal(body, &s.self)
	case recordDisk:
		var d disk
		if err := encoding.Unmarshal(body, &d); err != nil {
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
		return s.extend(e)
	default:
		return fmt.Errorf("of kind %q, which a later version may have written: %w", r[0], errBroken)
	}
	return nil
}

// extend puts an entry at its index; it replaces the entries from there on.
func (s *stored) extend(e *pb.Entry) error {
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

// check refuses content on which raft would panic.
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

// storage returns the same content for raft to read.
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

// records returns the smallest set of records for s.
func (s *stored) records() [][]byte {
	records := [][]byte{record(recordSelf, encode(s.self))}
	for _, n := range slices.Sorted(maps.Keys(s.disks)) {
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

// Recovered is what [Recover] found in a log, and the log that it made.
type Recovered struct {
	Records [][]byte          // the new log; nil if the id is not the log's
	Epoch   uint64            // the highest epoch of the log: the next leader's is above it
	Voters  []election.Member // the voters until now, by id
}

// Recover turns the log of a member whose majority is permanently lost into the log of a cluster in
// which that member is the only voter. The remaining members are its learners: each starts with an
// empty data directory, and votes once it has the log. Epochs continue above the highest epoch of
// the log and above the given epoch. A member with an earlier log belongs to a different cluster
// from then on: it neither votes for this member nor follows it.
//
// It is for a stopped member, and safe only if no majority of the former voters runs again: two
// clusters would lead under the same name (as with hashicorp/raft's RecoverCluster). It returns an
// error for a log that cannot be read, a member that is not in the list, and an invalid list.
func Recover(records [][]byte, self election.ID, members []election.Member, above uint64) (r Recovered, err error) {
	s, err := load(records)
	switch {
	case err != nil:
		return r, err
	case s == nil || s.snapshot == nil:
		return r, errors.New("the log is that of a member that has joined no cluster yet: there is nothing to recover")
	case s.self.ID != self:
		return r, fmt.Errorf("the log belongs to member %s, not to member %s", s.self.ID, self)
	case above >= election.MaxEpoch:
		return r, fmt.Errorf("epoch %d: an epoch is below %d", above, uint64(election.MaxEpoch))
	}
	before, err := s.lastList()
	if err != nil {
		return r, err
	}
	r.Epoch = s.hard.GetTerm()
	for _, seat := range before.Seats {
		if before.votes(seat.Number) {
			r.Voters = append(r.Voters, asMember(&seat))
		}
	}
	after, err := before.recovered(s.self, members, max(r.Epoch, above))
	if err != nil {
		return r, err
	}
	index, term := s.end()
	s.self.Digest, s.self.Founders, s.self.Settled = 0, nil, true
	s.snapshot = &pb.Snapshot{Data: encode(after), Metadata: &pb.SnapshotMetadata{ConfState: after.conf, Index: &index, Term: &term}}
	s.hard = &pb.HardState{Term: new(max(r.Epoch, above)), Vote: new(s.self.Number), Commit: &index}
	s.entries, s.disks = nil, nil
	r.Records = s.records()
	return r, nil
}

// end returns the index and the term of the last entry.
func (s *stored) end() (index, term uint64) {
	if n := len(s.entries); n > 0 {
		return s.entries[n-1].GetIndex(), s.entries[n-1].GetTerm()
	}
	return s.snapshot.GetMetadata().GetIndex(), s.snapshot.GetMetadata().GetTerm()
}

// lastList returns the list of members after every entry, including entries that may not be committed.
func (s *stored) lastList() (roster, error) {
	meta := s.snapshot.GetMetadata()
	r, err := decodeRoster(s.snapshot.GetData(), meta.GetConfState())
	if err != nil {
		return r, err
	}
	storage, err := s.storage()
	if err != nil {
		return r, err
	}
	node, err := newNode(s.self.Number, storage, meta.GetIndex())
	if err != nil {
		return r, err
	}
	for _, e := range s.entries {
		r.link(e.GetTerm(), e.GetData())
		if e.GetType() == pb.EntryNormal {
			continue
		}
		var change pb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &change); err != nil {
			return r, err
		}
		if err := r.change(&change, node.ApplyConfChange(&change)); err != nil {
			return r, err
		}
	}
	return r, nil
}

// recovered returns the list of a cluster that continues with a single voter.
func (r roster) recovered(voter self, members []election.Member, epoch uint64) (roster, error) {
	if len(members) > MaxMembers {
		return r, fmt.Errorf("%d members: a cluster has %d at most", len(members), MaxMembers)
	}
	after := roster{Next: r.Next + MaxMembers, Chain: r.Chain, conf: &pb.ConfState{Voters: []uint64{voter.Number}, AutoLeave: new(false)}}
	after.Founded = digest(roster{Seats: []seat{{ID: election.ID(fmt.Sprint(r.Founded, epoch, voter.Disk))}}})
	seen := map[election.ID]bool{}
	for _, m := range members {
		s := seat{Number: after.Next, ID: m.ID, Address: m.Address, Observer: m.Observer}
		switch {
		case seen[m.ID]:
			return r, fmt.Errorf("member %s is listed twice", m.ID)
		case m.ID.Kind() != voter.ID.Kind():
			return r, fmt.Errorf("%w: %s is a %v, and %s a %v", election.ErrMixedKind, m.ID, m.ID.Kind(), voter.ID, voter.ID.Kind())
		case m.ID == voter.ID:
			s.Number, s.Disk = voter.Number, voter.Disk
		default:
			after.conf.Learners = append(after.conf.Learners, s.Number)
		}
		if err := checkSeat(s); err != nil {
			return r, err
		}
		seen[m.ID] = true
		after.put(s)
	}
	if !seen[voter.ID] {
		return r, fmt.Errorf("this is the log of member %s, which is not among the members", voter.ID)
	}
	for _, s := range r.Seats {
		if !seen[s.ID] {
			after.Gone = append(after.Gone, s.ID)
		}
	}
	return after, nil
}

// digest identifies a list of members.
func digest(r roster) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, s := range r.Seats {
		for _, b := range bytes.Join([][]byte{[]byte(s.ID), {0}}, nil) {
			h = (h ^ uint64(b)) * 1099511628211
		}
	}
	return max(h, 1)
}

// termOf reads only the term of raft's hard state, its first field.
func termOf(b []byte) uint64 {
	if number, kind, n := protowire.ConsumeTag(b); n > 0 && number == 1 && kind == protowire.VarintType {
		term, _ := protowire.ConsumeVarint(b[n:])
		return term
	}
	hard := &pb.HardState{}
	_ = proto.Unmarshal(b, hard) // what does not parse has no term
	return hard.GetTerm()
}
