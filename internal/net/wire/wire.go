// Package wire is the codec of batuta's own protocol, version 1: the bytes between members.
//
//	frame   = length body
//	length  = 4 bytes, big-endian: the bytes of body; 1 to 2^20, 1 to 4096 while
//	          the handshake lasts (an admission, which holds a list, excepted)
//	body    = one CBOR map (RFC 8949) with integer keys; no indefinite lengths,
//	          tags, duplicate keys or bytes after it
//
// A connection begins with a handshake. The side that dialed sends a hello and, without waiting,
// any messages. The receiver answers with a welcome, or with a refusal, after which it closes. Then
// messages go both ways, in order, for as long as the connection lasts. A reader skips unknown
// keys, and counts and drops messages of an unknown kind, so that later versions may add both.
//
// The layouts are [Handshake] and [layout]; docs/wire.md and docs/wire-messages.md describe them
// for other languages.
package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/batuta-dev/batuta/election"
)

// Parameters that both ends must agree on, in bytes except for the version.
const (
	ProtocolVersion = 1
	LengthSize      = 4
	MaxHandshake    = 4 << 10
	MaxFrame        = 1 << 20
	MaxText         = election.MaxAddress // bytes of an address or a detail
	MaxAttestation  = 512
	SecretSize      = 32
)

// Handshake is a hello, a welcome or a refusal; or a join and its admission.
type Handshake struct {
	Kind        HandshakeKind `cbor:"0,keyasint"`
	Version     int           `cbor:"1,keyasint"`
	Cluster     string        `cbor:"2,keyasint,omitempty"` // hello
	From        election.Rank `cbor:"3,keyasint"`           // the sender
	Incarnation uint64        `cbor:"4,keyasint,omitempty"` // of the sender's process
	Address     string        `cbor:"5,keyasint,omitempty"` // where the sender listens
	To          election.ID   `cbor:"6,keyasint,omitempty"` // hello: the intended receiver
	Reason      Reason        `cbor:"7,keyasint,omitempty"` // refusal
	Detail      string        `cbor:"8,keyasint,omitempty"` // refusal, for users
	Observer    bool          `cbor:"9,keyasint,omitempty"` // join: the newcomer only follows

	List  []election.Member `cbor:"10,keyasint,omitempty"` // admission: the member list, or its first part; join: the newcomer's own entry
	Token election.Token    `cbor:"11,keyasint,omitzero"`  // admission, answer to a check: the leadership that the sender follows; join: the highest that the newcomer holds
	Age   time.Duration     `cbor:"12,keyasint,omitempty"` // admission: of the last message from that leader

	// Settings that must be the same for all members. A member of an earlier version omits them,
	// and is admitted.
	Algorithm string        `cbor:"13,keyasint,omitempty"`
	Election  string        `cbor:"14,keyasint,omitempty"`
	TMax      time.Duration `cbor:"15,keyasint,omitempty"`
	TProcess  time.Duration `cbor:"16,keyasint,omitempty"`

	// A hello with Check is not from a member: it asks for the receiver's settings. The answer is a
	// refusal with ReasonCheck, with the receiver's wall clock, its entry of the sender, and the
	// leadership that it follows.
	Check bool  `cbor:"17,keyasint,omitempty"` // hello
	Clock int64 `cbor:"18,keyasint,omitempty"` // refusal: nanoseconds since 1970

	Secret []byte `cbor:"19,keyasint,omitempty"` // attestation: it opens the commitment of the sender's leadership
}

// HandshakeKind is the kind of a handshake.
type HandshakeKind string

// Kinds of Handshake.
const (
	KindHello   HandshakeKind = "hello"
	KindWelcome HandshakeKind = "welcome"
	KindRefused HandshakeKind = "refused"

	// Instead of a hello: a newcomer that only has an address asks to be added to the list. The
	// answer is an admission or a refusal; then the connection ends.
	KindJoin     HandshakeKind = "join"
	KindAdmitted HandshakeKind = "admitted"

	// The only frame of a connection on which a guard attests that the sender, a leader, is dead.
	// It needs no TLS, even if members use TLS. The only answer is the end of the connection.
	KindAttest HandshakeKind = "attest"
)

// layout is an [election.Message] on the wire. Times are in nanoseconds.
type layout struct {
	Kind        election.MessageKind    `cbor:"0,keyasint"`
	Election    string                  `cbor:"1,keyasint,omitempty"`
	From        election.ID             `cbor:"2,keyasint,omitempty"`
	To          election.ID             `cbor:"3,keyasint,omitempty"`
	Token       election.Token          `cbor:"4,keyasint,omitzero"`
	Highest     uint64                  `cbor:"5,keyasint,omitempty"`
	Eligibility election.Eligibility    `cbor:"6,keyasint,omitempty"`
	Round       election.Round          `cbor:"7,keyasint,omitzero"`
	Hops        int                     `cbor:"8,keyasint,omitempty"`
	Ended       bool                    `cbor:"9,keyasint,omitempty"`
	Age         time.Duration           `cbor:"10,keyasint,omitempty"`
	Stamp       int64                   `cbor:"11,keyasint,omitempty"`
	Draining    bool                    `cbor:"12,keyasint,omitempty"`
	Version     uint64                  `cbor:"13,keyasint,omitempty"`
	Ring        []election.Rank         `cbor:"14,keyasint,omitempty"`
	States      []election.MemberReport `cbor:"15,keyasint,omitempty"`
	Digest      uint32                  `cbor:"16,keyasint,omitempty"`
	List        []election.Member       `cbor:"17,keyasint,omitempty"`
	Follows     bool                    `cbor:"18,keyasint,omitempty"`
	Carried     *layout                 `cbor:"19,keyasint,omitempty"` // in a relay
	Heir        election.ID             `cbor:"21,keyasint,omitempty"`
	Data        []byte                  `cbor:"22,keyasint,omitempty"`
	Shares      *election.Shares        `cbor:"23,keyasint,omitempty"` // in a heartbeat and an acknowledgement
	MetaSum     uint32                  `cbor:"24,keyasint,omitempty"`
	Meta        []election.Meta         `cbor:"25,keyasint,omitempty"`
	Claimant    uint64                  `cbor:"26,keyasint,omitempty"` // in a quorum's resign
	Side        int                     `cbor:"27,keyasint,omitempty"`
	Young       bool                    `cbor:"28,keyasint,omitempty"`
	Renews      uint64                  `cbor:"29,keyasint,omitempty"`
	Pause       *election.Pause         `cbor:"30,keyasint,omitempty"`
	Change      uint64                  `cbor:"31,keyasint,omitempty"`
	Process     uint64                  `cbor:"32,keyasint,omitempty"` // in a relay
	Leads       bool                    `cbor:"33,keyasint,omitempty"`
	Cause       election.Cause          `cbor:"34,keyasint,omitempty"` // of its sender's leadership that has ended
}

// Reason is why a connection was refused or a frame dropped. It is a label of counters and is sent
// in refusals.
type Reason string

// Reasons.
const (
	// Of handshakes.
	ReasonVersion        Reason = "version"
	ReasonCluster        Reason = "cluster"
	ReasonReceiver       Reason = "receiver" // meant for a different member
	ReasonNotMember      Reason = "not-member"
	ReasonRemoved        Reason = "removed"
	ReasonSameID         Reason = "same-id"
	ReasonOldIncarnation Reason = "old-incarnation"
	ReasonCrowded        Reason = "crowded" // too many connections
	ReasonClosing        Reason = "closing"
	ReasonJoining        Reason = "joining"    // it joins a cluster itself: retry later
	ReasonJoin           Reason = "join"       // may not join: its kind of id differs, or the cluster is full
	ReasonManyJoins      Reason = "many-joins" // too many newcomers just now: retry later
	ReasonItself         Reason = "itself"     // the process has dialed its own address
	ReasonCheck          Reason = "check"      // a question, answered by the refusal
	ReasonAlgorithm      Reason = "algorithm"
	ReasonTimes          Reason = "times" // a different t_max or t_process
	ReasonElection       Reason = "election"
	ReasonAddress        Reason = "address"  // no address where it listens
	ReasonSecurity       Reason = "security" // TLS: its identity is not proven
	ReasonAttest         Reason = "attest"   // an attestation that ends no leadership
	ReasonOther          Reason = "other"    // of a later version, unknown here

	// Of frames, in a handshake or later.
	ReasonLength    Reason = "length"
	ReasonMalformed Reason = "malformed"
	ReasonID        Reason = "id"
	ReasonEpoch     Reason = "epoch"
	ReasonSlow      Reason = "slow"  // began and did not complete in time
	ReasonEarly     Reason = "early" // did not begin with a handshake
	ReasonKind      Reason = "kind"  // unknown: dropped, the connection stays
	ReasonOverflow  Reason = "overflow"
)

// Known returns why if it is a Reason of this version, else ReasonOther: what peers send never
// labels a counter.
func (why Reason) Known() Reason {
	switch why {
	case ReasonVersion, ReasonCluster, ReasonReceiver, ReasonNotMember, ReasonRemoved, ReasonSameID, ReasonOldIncarnation,
		ReasonCrowded, ReasonClosing, ReasonJoining, ReasonAttest, ReasonJoin, ReasonManyJoins, ReasonItself, ReasonCheck, ReasonAlgorithm, ReasonTimes, ReasonElection, ReasonAddress, ReasonSecurity, ReasonEarly:
		return why
	}
	return ReasonOther
}

// Err returns the Machine's error for a refusal, or nil if there is none.
func (why Reason) Err() error {
	switch why {
	case ReasonSameID:
		return election.ErrSameID
	case ReasonOldIncarnation:
		return election.ErrOldIncarnation
	case ReasonNotMember:
		return election.ErrNotMember
	case ReasonJoining:
		return election.ErrJoining
	case ReasonRemoved:
		return election.ErrRemoved
	case ReasonSecurity, ReasonCluster, ReasonVersion, ReasonAlgorithm, ReasonElection, ReasonTimes:
		return election.ErrForeign
	}
	return nil
}

// BadFrame is an error for invalid data from outside. It ends its connection.
type BadFrame struct {
	Reason Reason
	detail string
}

// Error describes what is invalid.
func (b *BadFrame) Error() string { return fmt.Sprintf("bad frame (%s): %s", b.Reason, b.detail) }

// Bad makes a [*BadFrame].
func Bad(why Reason, format string, args ...any) error {
	return &BadFrame{why, fmt.Sprintf(format, args...)}
}

// The codec's modes never change; they are package variables because building them is slow.
var (
	encoding = newEncoding()
	decoding = newDecoding()
)

func newEncoding() cbor.UserBufferEncMode {
	mode, err := cbor.EncOptions{}.UserBufferEncMode()
	if err != nil {
		panic(err) // our own options are wrong
	}
	return mode
}

func newDecoding() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DupMapKey:         cbor.DupMapKeyEnforcedAPF,
		IndefLength:       cbor.IndefLengthForbidden,
		TagsMd:            cbor.TagsForbidden,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
		MaxNestedLevels:   8,
		MaxArrayElements:  election.MaxMembers,
		MaxMapPairs:       64,
	}.DecMode()
	if err != nil {
		panic(err) // our own options are wrong
	}
	return mode
}

// Encoder makes frames. The next frame reuses its buffer.
type Encoder struct{ buf bytes.Buffer }

// Handshake makes the frame of a handshake; it is valid until the next frame.
func (e *Encoder) Handshake(h *Handshake) ([]byte, error) {
	if h.Kind == KindAdmitted {
		return e.Frame(h, MaxFrame)
	}
	return e.Frame(h, MaxHandshake)
}

// Message makes the frame of a message; it is valid until the next frame.
func (e *Encoder) Message(m *election.Message) ([]byte, error) {
	return e.Frame(outward(m), MaxFrame)
}

func outward(m *election.Message) *layout {
	if m == nil {
		return nil
	}
	return &layout{
		Kind: m.Kind, Election: m.Election, From: m.From, To: m.To,
		Token: m.Token, Highest: m.Highest, Eligibility: m.Eligibility,
		Round: m.Round, Hops: m.Hops,
		Ended: m.Ended, Age: m.Age, Stamp: m.Stamp, Draining: m.Draining, Version: m.Version,
		Ring: m.Ring, States: m.States, Digest: m.Digest, List: m.List, Follows: m.Follows, Heir: m.Heir,
		Carried: outward(m.Carried), Data: m.Data, Shares: m.Shares, MetaSum: m.MetaDigest, Meta: m.Meta, Claimant: m.Claimant,
		Side: m.Side, Young: m.Young, Renews: m.Renews, Pause: m.Pause, Leads: m.Leads, Change: m.Change, Process: m.Process, Cause: m.Cause,
	}
}

// Frame makes a frame of v, if its body takes at most limit bytes.
func (e *Encoder) Frame(v any, limit int) ([]byte, error) {
	e.buf.Reset()
	e.buf.Write(make([]byte, LengthSize))
	if err := encoding.MarshalToBuffer(v, &e.buf); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	frame := e.buf.Bytes()
	size := len(frame) - LengthSize
	if size > limit {
		return nil, fmt.Errorf("encode %T: %d bytes, and a frame holds at most %d", v, size, limit)
	}
	binary.BigEndian.PutUint32(frame, uint32(size))
	return frame, nil
}

// FrameSize returns a frame's length, and refuses a wrong length before anything is allocated.
func FrameSize(head []byte, limit int) (int, error) {
	size := binary.BigEndian.Uint32(head)
	if size == 0 || size > uint32(limit) {
		return 0, Bad(ReasonLength, "a length of %d, and at most %d is allowed here", size, limit)
	}
	return int(size), nil
}

// DecodeHandshake reads the body of a connection's first frame.
func DecodeHandshake(body []byte) (h *Handshake, err error) {
	h = new(Handshake)
	if err := decoding.Unmarshal(body, h); err != nil {
		return nil, Bad(ReasonMalformed, "handshake: %v", err)
	}
	switch h.Kind {
	case KindHello, KindWelcome, KindRefused, KindJoin, KindAdmitted, KindAttest:
	default:
		return nil, Bad(ReasonEarly, "a %.32q where the handshake should be", string(h.Kind))
	}
	for _, text := range []string{h.Cluster, h.Address, h.Detail, string(h.Reason), h.Algorithm, h.Election} {
		if len(text) > MaxText {
			return nil, Bad(ReasonLength, "handshake: a text is longer than %d bytes", MaxText)
		}
	}
	if err := checkIDs(h.From.ID, h.To, h.Token.Leader.ID); err != nil {
		return nil, err
	}
	if h.From.ID == election.None {
		return nil, Bad(ReasonID, "handshake: it does not name its sender")
	}
	if refused := h.Kind == KindRefused; refused != (h.Reason != "") {
		return nil, Bad(ReasonMalformed, "handshake: a %s with reason %q: a refusal has one, and nothing else does", h.Kind, election.Shown(string(h.Reason)))
	}
	if len(h.Secret) > SecretSize || h.Kind == KindAttest && len(h.Secret) != SecretSize {
		return nil, Bad(ReasonMalformed, "handshake: a %s with a secret of %d bytes: an attestation has one of %d", h.Kind, len(h.Secret), SecretSize)
	}
	if h.Token.Epoch > election.MaxEpoch {
		return nil, Bad(ReasonEpoch, "handshake: epoch %d", h.Token.Epoch)
	}
	if h.List, err = election.CheckList(h.List); err != nil {
		return nil, badEntry(err)
	}
	return h, nil
}

// DecodeMessage reads the body of any later frame.
func DecodeMessage(body []byte) (*election.Message, error) {
	var w layout
	if err := decoding.Unmarshal(body, &w); err != nil {
		return nil, Bad(ReasonMalformed, "message: %v", err)
	}
	m, err := w.inward()
	if w.Process != 0 {
		return nil, Bad(ReasonMalformed, "message: it names process %d, as only one that is passed on does", w.Process)
	}
	if err != nil || w.Carried == nil {
		return m, err
	}
	if w.Carried.Carried != nil {
		return nil, Bad(ReasonMalformed, "message: one that is passed on carries another")
	}
	m.Carried, err = w.Carried.inward()
	return m, err
}

// inward returns a valid message, without the message that it carries.
func (w *layout) inward() (m *election.Message, err error) {
	if w.List, err = election.CheckList(w.List); err != nil {
		return nil, badEntry(err)
	}
	if err := w.check(); err != nil {
		return nil, err
	}
	return &election.Message{
		Kind: w.Kind, Election: w.Election, From: w.From, To: w.To,
		Token: w.Token, Highest: w.Highest, Eligibility: w.Eligibility,
		Round: w.Round, Hops: w.Hops,
		Ended: w.Ended, Age: w.Age, Stamp: w.Stamp, Draining: w.Draining, Version: w.Version,
		Ring: w.Ring, States: w.States, Digest: w.Digest, List: w.List, Follows: w.Follows, Heir: w.Heir,
		Data: w.Data, Shares: w.Shares, MetaDigest: w.MetaSum, Meta: w.Meta, Claimant: w.Claimant,
		Side: w.Side, Young: w.Young, Renews: w.Renews, Pause: w.Pause, Leads: w.Leads, Change: w.Change, Process: w.Process, Cause: w.Cause,
	}, nil
}

// check refuses what no honest member would send.
func (w *layout) check() error {
	if w.Kind == "" || !plain(string(w.Kind)) || !plain(string(w.Eligibility)) || !plain(string(w.Cause)) || !election.Printable(w.Election, MaxText) {
		return Bad(ReasonMalformed, "message: a kind of %d bytes, an election of %d, a reason not to stand of %d, which may be too long or not print", len(w.Kind), len(w.Election), len(w.Eligibility))
	}
	if w.From == election.None {
		return Bad(ReasonID, "message: it does not name its sender")
	}
	if err := checkIDs(w.From, w.To, w.Token.Leader.ID, w.Round.Initiator, w.Heir); err != nil {
		return err
	}
	if w.Hops < 0 || w.Hops > 4*election.MaxMembers {
		return Bad(ReasonMalformed, "message: %d hops", w.Hops)
	}
	if w.Claimant > election.MaxVersion {
		return Bad(ReasonMalformed, "message: the claimant's number %d is above %d", w.Claimant, uint64(election.MaxVersion))
	}
	if w.Side < 0 || w.Side > election.MaxMembers || w.Renews > w.Token.Epoch {
		return Bad(ReasonMalformed, "message: a side of %d members, and an epoch %d that renews %d", w.Side, w.Token.Epoch, w.Renews)
	}
	if p := w.Pause; p != nil && (p.Version > election.MaxVersion || p.Left < 0 || p.Left > election.MaxPause || checkIDs(p.Holder) != nil) {
		return Bad(ReasonMalformed, "message: a pause of %v, version %d", p.Left, p.Version)
	}
	if len(w.Data) > election.MaxData {
		return Bad(ReasonLength, "message: %d bytes of data", len(w.Data))
	}
	// Anything near 2^64 would overflow the counters of members that continue from it.
	if w.Token.Epoch > election.MaxEpoch || w.Highest > election.MaxEpoch || w.Round.Number > 1<<62 {
		return Bad(ReasonEpoch, "message: epoch %d, highest %d, round %d", w.Token.Epoch, w.Highest, w.Round.Number)
	}
	for _, r := range w.Ring {
		if err := checkIDs(r.ID); err != nil {
			return err
		}
	}
	for _, s := range w.States {
		if err := checkIDs(s.ID); err != nil {
			return err
		}
		if s.Epoch > election.MaxEpoch {
			return Bad(ReasonEpoch, "message: member %s with epoch %d", s.ID, s.Epoch)
		}
		if !plain(string(s.State)) {
			return Bad(ReasonMalformed, "message: member %s with a state of %d bytes, which is too long or does not print", s.ID, len(s.State))
		}
	}
	for _, m := range w.List {
		if err := m.Check(); err != nil {
			return badEntry(err)
		}
	}
	for _, m := range w.Meta {
		if err := m.Check(); err != nil {
			return badEntry(err)
		}
	}
	return nil
}

// plain reports whether a name is valid in the protocol, in a later version too.
func plain(word string) bool { return election.Printable(word, maxWord) }

const maxWord = 64 // bytes of a kind, a member's state, a reason not to be a candidate

// checkIDs is [election.CheckIDs] with the reason for dropping a frame.
func checkIDs(ids ...election.ID) error { return badEntry(election.CheckIDs(ids...)) }

// badEntry returns the reason for dropping a frame with an invalid id or entry.
func badEntry(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, election.ErrID):
		return Bad(ReasonID, "%v", err)
	}
	return Bad(ReasonMalformed, "%v", err)
}

// CheckMessage refuses what no honest member would send, for any protocol.
func CheckMessage(m *election.Message) error {
	w := outward(m)
	return w.check()
}
