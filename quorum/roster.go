package quorum

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/codec"
)

// MaxMembers bounds the members of a cluster, observers included: each heartbeat goes to all.
const MaxMembers = 64

// seat is a member in the log. Its number is raft's, and is never reused: a member that comes back
// with an empty disk gets a new number.
type seat struct {
	Number   uint64      `cbor:"1,keyasint"`
	ID       election.ID `cbor:"2,keyasint"`
	Address  string      `cbor:"3,keyasint,omitempty"`
	Observer bool        `cbor:"4,keyasint,omitempty"`
	Disk     uint64      `cbor:"5,keyasint,omitempty"` // names the disk that the number belongs to; 0: of the first list, where cards show it

	// The priority that a user has set for the process with that incarnation. A process that starts
	// later has a priority of its own. 0: none was set.
	Priority int    `cbor:"6,keyasint,omitempty"`
	Process  uint64 `cbor:"7,keyasint,omitempty"`
}

// roster is the members according to the log: the state machine that raft replicates.
type roster struct {
	Seats []seat        `cbor:"1,keyasint"`           // by number
	Next  uint64        `cbor:"2,keyasint"`           // the number of the next newcomer
	Chain uint64        `cbor:"4,keyasint,omitempty"` // a checksum of all entries so far
	Gone  []election.ID `cbor:"3,keyasint,omitempty"`

	Founded uint64 `cbor:"5,keyasint,omitempty"` // names the list that the cluster began with; 0: not known
	Changed uint64 `cbor:"6,keyasint,omitempty"` // the index of the last change of the members; 0: an earlier release, or none
	Most    int    `cbor:"7,keyasint,omitempty"` // the largest number of voters at a time; 0: an earlier release

	conf  *pb.ConfState // the voters, by number
	index map[election.ID]int
}

// first returns the roster of a cluster that begins with these members.
func first(members []election.Member) roster {
	members = slices.Clone(members)
	slices.SortStableFunc(members, func(a, b election.Member) int { return a.ID.Compare(b.ID) })
	r := roster{Next: uint64(len(members)) + 1, conf: &pb.ConfState{AutoLeave: new(false)}}
	for i, m := range members {
		n := uint64(i + 1)
		r.Seats = append(r.Seats, seat{Number: n, ID: m.ID, Address: m.Address})
		r.conf.Voters = append(r.conf.Voters, n)
	}
	r.Most = len(members)
	r.sort()
	return r
}

// link adds an entry to the checksum.
func (r *roster) link(term uint64, data []byte) {
	h := r.Chain ^ 14695981039346656037 // FNV-1a
	for ; term > 0; term >>= 8 {
		h = (h ^ term&0xff) * 1099511628211
	}
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	r.Chain = h
}

func (r *roster) sort() {
	slices.SortStableFunc(r.Seats, func(a, b seat) int { return int(int64(a.Number) - int64(b.Number)) })
	r.index = make(map[election.ID]int, len(r.Seats))
	for i, s := range r.Seats {
		r.index[s.ID] = i
	}
}

// of returns a member's seat; nil if it is no member.
func (r *roster) of(id election.ID) *seat {
	if i, ok := r.index[id]; ok {
		return &r.Seats[i]
	}
	return nil
}

// by returns the seat with that number; nil: there is none.
func (r *roster) by(number uint64) *seat {
	for i := range r.Seats {
		if r.Seats[i].Number == number {
			return &r.Seats[i]
		}
	}
	return nil
}

// votes reports whether a number is a voter in any configuration that counts now.
func (r *roster) votes(number uint64) bool {
	return slices.Contains(r.conf.GetVoters(), number) || slices.Contains(r.conf.GetVotersOutgoing(), number)
}

// majorities returns the sets of voters that must each agree: two while the configuration changes.
func (r *roster) majorities() [][]uint64 {
	if out := r.conf.GetVotersOutgoing(); len(out) > 0 {
		return [][]uint64{r.conf.GetVoters(), out}
	}
	return [][]uint64{r.conf.GetVoters()}
}

// put adds a member, or changes its seat.
func (r *roster) put(s seat) {
	r.Gone = slices.DeleteFunc(r.Gone, func(id election.ID) bool { return id == s.ID })
	if old := r.by(s.Number); old != nil {
		*old = s
	} else {
		r.Seats = append(r.Seats, s)
	}
	r.Next = max(r.Next, s.Number+1)
	r.sort()
}

// drop removes a seat; its number is never reused.
func (r *roster) drop(old seat) {
	r.Gone = append(r.Gone, old.ID)
	if len(r.Gone) > MaxMembers {
		r.Gone = r.Gone[1:]
	}
	r.Seats = slices.DeleteFunc(r.Seats, func(s seat) bool { return s.Number == old.Number })
	r.sort()
}

var encoding = codec.New(4 * MaxMembers)

func encode(v any) []byte {
	data, err := encoding.Marshal(v)
	if err != nil {
		panic(err) // plain structs of numbers and text
	}
	return data
}

// decodeRoster reads the data of a snapshot with its configuration, and refuses what raft could not
// use.
func decodeRoster(data []byte, conf *pb.ConfState) (roster, error) {
	var r roster
	if err := encoding.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("the list of members: %w", err)
	}
	if len(r.Seats) > MaxMembers || len(r.Gone) > MaxMembers {
		return r, fmt.Errorf("the list of members: %d, and at most %d are allowed", len(r.Seats), MaxMembers)
	}
	ids := map[election.ID]bool{}
	numbers := map[uint64]bool{}
	for _, s := range r.Seats {
		if err := checkSeat(s); err != nil {
			return r, err
		}
		if ids[s.ID] || numbers[s.Number] || s.Number >= r.Next {
			return r, fmt.Errorf("the list of members: %s, number %d, is listed twice, or is beyond the last number", s.ID, s.Number)
		}
		ids[s.ID], numbers[s.Number] = true, true
	}
	if err := election.CheckIDs(r.Gone...); err != nil {
		return r, err
	}
	r.conf = conf
	r.sort()
	return r, checkConf(conf)
}

func checkSeat(s seat) error {
	if s.Number == 0 || s.ID == election.None || s.Number > election.MaxEpoch {
		return fmt.Errorf("the list of members: %s with number %d", s.ID, s.Number)
	}
	if !election.Printable(s.Address, election.MaxAddress) {
		return fmt.Errorf("the list of members: %s with an address of %d bytes, which is too long or does not print", s.ID, len(s.Address))
	}
	return election.CheckIDs(s.ID)
}

// checkConf refuses a configuration on which raft would panic.
func checkConf(conf *pb.ConfState) error {
	voters := map[uint64]bool{}
	lists := [][]uint64{conf.GetVoters(), conf.GetVotersOutgoing(), conf.GetLearners(), conf.GetLearnersNext()}
	for i, list := range lists {
		if len(list) > MaxMembers {
			return fmt.Errorf("a configuration of %d", len(list))
		}
		seen := map[uint64]bool{}
		for _, n := range list {
			if n == 0 || n > election.MaxEpoch || seen[n] {
				return fmt.Errorf("a configuration with number %d twice, or out of range", n)
			}
			seen[n] = true
			switch {
			case i < 2:
				voters[n] = true
			case i == 2 && voters[n]:
				return fmt.Errorf("a configuration in which %d votes and learns", n)
			case i == 3 && !slices.Contains(conf.GetVotersOutgoing(), n), i == 3 && slices.Contains(conf.GetVoters(), n):
				return fmt.Errorf("a configuration in which %d is to learn and did not vote", n)
			}
		}
	}
	if len(conf.GetVoters()) == 0 {
		return fmt.Errorf("a configuration without a voter")
	}
	if len(conf.GetVotersOutgoing()) == 0 && (conf.GetAutoLeave() || len(conf.GetLearnersNext()) > 0) {
		return fmt.Errorf("a configuration that leaves another, and there is none")
	}
	return nil
}

func varints(values ...uint64) []byte {
	b := make([]byte, 0, 16)
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// readVarints reads the first n varints, four at most; ok is false if b has fewer.
func readVarints(b []byte, n int) (values [4]uint64, ok bool) {
	for i := range n {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return values, false
		}
		values[i], b = v, b[size:]
	}
	return values, true // the rest is of a later version
}

// change applies a change, after which the configuration is conf.
func (r *roster) change(cc *pb.ConfChangeV2, conf *pb.ConfState) error {
	r.conf, r.Most = conf, max(r.Most, len(conf.GetVoters()))
	s, err := seatOf(cc)
	if err != nil {
		return err
	}
	if s != nil && cc.GetChanges()[0].GetType() != pb.ConfChangeRemoveNode {
		r.put(*s)
	}
	for _, old := range slices.Clone(r.Seats) {
		if !r.counts(old.Number) {
			r.drop(old)
		}
	}
	return nil
}

// counts reports whether the configuration contains a number in any role.
func (r *roster) counts(number uint64) bool {
	return r.votes(number) || slices.Contains(r.conf.GetLearners(), number)
}

// seatOf returns the member that a change is about; nil: the change leaves a joint configuration.
func seatOf(cc *pb.ConfChangeV2) (*seat, error) {
	if len(cc.GetChanges()) == 0 {
		return nil, nil
	}
	var s seat
	if len(cc.GetChanges()) > 1 || encoding.Unmarshal(cc.GetContext(), &s) != nil || checkSeat(s) != nil || cc.GetChanges()[0].GetNodeId() != s.Number {
		return nil, errUnsound
	}
	return &s, nil
}

// checkEntry refuses an entry that raft could not apply.
func checkEntry(e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryNormal:
		return nil
	case pb.EntryConfChangeV2:
		var cc pb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &cc); err != nil {
			return err
		}
		_, err := seatOf(&cc)
		return err
	}
	return errUnsound
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

func asMember(s *seat) election.Member {
	return election.Member{Rank: election.Rank{ID: s.ID}, Address: s.Address, Observer: s.Observer, Number: s.Number}
}
