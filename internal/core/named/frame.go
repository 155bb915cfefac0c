package named

import (
	"fmt"
	"slices"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/codec"
)

// op is the kind of a frame.
type op uint8

const (
	opReport  op = 1 + iota // member → coordinator: Claims; Whole: all there are, in Parts
	opAssign                // coordinator → member: Seats that have changed from Base to Version; Whole: all there are, in Parts
	opSame                  // coordinator → member: its report is taken in, and the assignments are those that it has, under Version
	opAsk                   // report everything
	opRelease               // coordinator → member: stop leading Seats
	opRequest               // member → coordinator: Request
	opReply                 // coordinator → member: what has come of Number
	opAlike                 // as opReport of all, but compact: see Alike
	opEnded                 // in a coordinator's resignation: what may still be held, by Wait, Rest and Holders
	opClosed                // member that closes → all: the process Incarnation leads nothing any more
)

// frame is what members exchange about named elections, in Message.Data of kind
// [election.Named]; opEnded goes in that of [election.Resign]. Each but opClosed belongs to the time
// of a coordinator, the message's Token.
type frame struct {
	Op      op     `cbor:"1,keyasint"`
	Stamp   int64  `cbor:"2,keyasint,omitempty"` // to the coordinator: when it left, in the sender's time
	Echo    int64  `cbor:"3,keyasint,omitempty"` // to a member: its last stamp
	Version uint64 `cbor:"4,keyasint,omitempty"`
	Base    uint64 `cbor:"5,keyasint,omitempty"`
	Whole   bool   `cbor:"6,keyasint,omitempty"`
	Part    int    `cbor:"7,keyasint,omitempty"`
	Parts   int    `cbor:"8,keyasint,omitempty"`
	Digest  uint64 `cbor:"9,keyasint,omitempty"` // of the assignments that the sender has

	Incarnation uint64        `cbor:"10,keyasint,omitempty"` // to the coordinator: of the sender's process; to a member: of the process that it is for, 0: of any
	Fit         bool          `cbor:"11,keyasint,omitempty"` // report: it may lead
	Claims      []claim       `cbor:"12,keyasint,omitempty"`
	Seats       []Seat        `cbor:"13,keyasint,omitempty"`
	Drained     []election.ID `cbor:"14,keyasint,omitempty"` // assign: the members that are to lead nothing
	Forced      []election.ID `cbor:"19,keyasint,omitempty"` // assign: those of them that also give up what has no further candidate

	Number  uint64   `cbor:"15,keyasint,omitempty"` // request and reply
	Request *Request `cbor:"16,keyasint,omitempty"`
	Error   string   `cbor:"17,keyasint,omitempty"`
	Why     Refusal  `cbor:"24,keyasint,omitempty"` // reply: the class of Error

	Raise []Seat `cbor:"18,keyasint,omitempty"` // report: seats that the sender has seen under a higher Epoch, this, than they have

	// In opAlike: the sender's candidacy for each name with a single seat in the assignments of
	// which Digest is, except for those that Claims mention. It holds those of them that are
	// assigned to it.
	Alike *claim `cbor:"20,keyasint,omitempty"`

	Wait    time.Duration `cbor:"21,keyasint,omitempty"` // ended: how long the sender counted on a holder
	Rest    time.Duration `cbor:"22,keyasint,omitempty"` // ended: after that only Holders hold anything
	Holders []holder      `cbor:"23,keyasint,omitempty"` // ended: the processes that the sender has confirmed

	encoded codec.Raw // Seats, where several members are sent the same; see encodeEach
}

// claim is what a member reports of a name.
type claim struct {
	_        struct{} `cbor:",toarray"`
	Name     string
	Stands   bool // it is a candidate
	Weight   int
	Prefer   bool
	Seats    int
	Seat     int    // that it holds
	Epoch    uint64 // under which it does; 0: it holds none
	Over     bool   // its lead has ended, and its work has still to stop; for coordinators of earlier versions
	Done     uint64 // the last epoch that it has given up
	Last     uint64 // the highest that it knows of
	Resigned bool   // it gave that up of its own will, and stays a candidate
}

// holder is a process that a former coordinator has confirmed, and for how long at most it may
// hold what it holds.
type holder struct {
	_           struct{} `cbor:",toarray"`
	ID          election.ID
	Incarnation uint64
	Left        time.Duration
}

// checkEnded refuses times of a former coordinator that no honest member sends.
func (f *frame) checkEnded() error {
	if len(f.Holders) > election.MaxMembers || min(f.Wait, f.Rest) < 0 || max(f.Wait, f.Rest) > maxWait {
		return fmt.Errorf("%d holders, a wait of %v and a rest of %v", len(f.Holders), f.Wait, f.Rest)
	}
	for _, h := range f.Holders {
		if h.Left < 0 || h.Left > maxWait {
			return fmt.Errorf("a holder has %v left", h.Left)
		}
		if err := election.CheckIDs(h.ID); err != nil {
			return err
		}
	}
	return nil
}

// check refuses what no honest member would claim.
func (c claim) check() error {
	if c.Weight < 0 || c.Weight > MaxWeight || c.Seats < 0 || c.Seats > MaxSeats || c.Seat < 0 || c.Seat >= MaxSeats || max(c.Epoch, c.Done, c.Last) > maxEpoch {
		return fmt.Errorf("a claim of %.64q: weight %d, seat %d of %d, epochs %d, %d, %d", c.Name, c.Weight, c.Seat, c.Seats, c.Epoch, c.Done, c.Last)
	}
	return nil
}

// Seat is an assignment: the leader of a name, and its epoch.
type Seat struct {
	_      struct{} `cbor:",toarray"`
	Name   string
	Seat   int         // from 0; of a name with a single leader it is 0
	Leader election.ID // None: there is none
	Epoch  uint64      // of the leader, or of the last
	Pinned bool        // the leader was chosen by hand, or by its predecessor's resignation: its share does not move it
	Gone   bool        // it has no candidate any more
	Cause  election.Cause
}

func (s *Seat) check() error {
	if _, err := Name(s.Name); err != nil {
		return err
	}
	if s.Seat < 0 || s.Seat >= MaxSeats || s.Epoch > maxEpoch || !election.Printable(string(s.Cause), 64) {
		return fmt.Errorf("an assignment of %.64q: seat %d, epoch %d", s.Name, s.Seat, s.Epoch)
	}
	return election.CheckIDs(s.Leader)
}

type key struct {
	name string
	seat int
}

func (s Seat) key() key { return key{s.Name, s.Seat} }

func (s Seat) token() election.Token {
	if s.Leader == election.None {
		return election.Token{}
	}
	return election.Token{Epoch: s.Epoch, Leader: election.Rank{ID: s.Leader}}
}

// PartBytes is how much of names goes in a frame in production: with the rest of each entry well
// below [election.MaxData].
const PartBytes = 128 << 10

// entryBytes is more than an entry takes beside its name, ids included.
const entryBytes = 48 + election.MaxID

// parts cuts a list, so that each part fits into a frame of so many bytes; it returns at least
// a single part.
func parts[E any](list []E, most int, size func(E) int) [][]E {
	out, from, bytes := [][]E{}, 0, 0
	for i, e := range list {
		if bytes += size(e); bytes > most && i > from {
			out, from, bytes = append(out, list[from:i]), i, size(e)
		}
	}
	return append(out, list[from:])
}

// parcel puts a frame together that comes in parts, in their order. The zero parcel has none.
type parcel struct {
	all  *frame // with the lists of the parts that have come; nil: none has
	next int    // part
}

// add takes in a part, and returns the whole frame with the last of them. Of two frames that were
// sent, parts of each may be lost: a part of another frame, or out of turn, does not fit.
func (p *parcel) add(f *frame) (whole *frame) {
	switch {
	case f.Part == 0:
		p.all, p.next = f, 0
	case p.all == nil || f.Part != p.next || f.Version != p.all.Version || f.Incarnation != p.all.Incarnation:
		return nil
	default:
		p.all.Seats, p.all.Claims, p.all.Raise = append(p.all.Seats, f.Seats...), append(p.all.Claims, f.Claims...), append(p.all.Raise, f.Raise...)
	}
	if p.next++; p.next < f.Parts {
		return nil
	}
	whole, p.all = p.all, nil
	return whole
}

func claimSize(c claim) int { return len(c.Name) + 48 }
func seatSize(s Seat) int   { return len(s.Name) + len(s.Leader) + 48 }

// maxWait is more than any coordinator waits: times are at most 24 h each.
const maxWait = 1000 * time.Hour

// maxParts is more than any whole list comes to.
const maxParts = MaxElections * (MaxName + entryBytes) / PartBytes

var encoding = codec.New(MaxElections * 2)

func (f *frame) encode() []byte {
	if f.encoded == nil {
		return encode(f)
	}
	rest := *f
	rest.encoded = nil
	return encode(struct {
		frame
		Seats codec.Raw `cbor:"13,keyasint"`
	}{rest, f.encoded})
}

func encode(v any) []byte {
	data, err := encoding.Marshal(v)
	if err != nil {
		panic(err) // plain structs of numbers and text
	}
	return data
}

// encodeEach encodes lists of seats, each once for all that it goes to.
func encodeEach(lists [][]Seat) (encoded []codec.Raw) {
	for _, list := range lists {
		encoded = append(encoded, encode(list))
	}
	return encoded
}

// decode reads a frame, and refuses what no honest member would send.
func decode(data []byte) (*frame, error) {
	f := &frame{}
	if err := encoding.Unmarshal(data, f); err != nil {
		return nil, err
	}
	if f.Part < 0 || f.Parts < 0 || f.Parts > maxParts || f.Part >= max(f.Parts, 1) || f.Version > 1<<62 || f.Base > 1<<62 || len(f.Error) > 4096 || max(len(f.Drained), len(f.Forced)) > election.MaxMembers {
		return nil, fmt.Errorf("part %d of %d, version %d after %d", f.Part, f.Parts, f.Version, f.Base)
	}
	for _, c := range f.Claims {
		if _, err := Name(c.Name); err != nil {
			return nil, err
		}
		if err := c.check(); err != nil {
			return nil, err
		}
	}
	if f.Alike != nil {
		if err := f.Alike.check(); err != nil {
			return nil, err
		}
	}
	for _, list := range [][]Seat{f.Seats, f.Raise} {
		for i := range list {
			if err := list[i].check(); err != nil {
				return nil, err
			}
		}
	}
	if err := election.CheckIDs(slices.Concat(f.Drained, f.Forced)...); err != nil {
		return nil, err
	}
	if err := f.checkEnded(); err != nil {
		return nil, err
	}
	if r := f.Request; r != nil {
		if err := r.check(); err != nil {
			return nil, err
		}
	}
	return f, nil
}
