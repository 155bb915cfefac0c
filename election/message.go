package election

import "time"

// MessageKind names a message. The algorithms' kinds are the papers'; the
// others are the Machine's own.
type MessageKind string

// Messages of the Machine: the detector and the epoch. Their texts are what goes over
// the wire, and stay.
const (
	Beat       MessageKind = "beat"        // leader → member: Token, Stamp; Draining; States when they changed
	Ack        MessageKind = "ack"         // member → leader: Token held, the last beat's Stamp
	Probe      MessageKind = "query"       // what do you know? Token: the leadership asked about
	ProbeReply MessageKind = "report"      // Token held, Ended, Age of its own hearing of that leader
	Resign     MessageKind = "resign"      // leader → all: the leadership Token has ended; Heir is to lead next
	Handover   MessageKind = "handover"    // higher-ranked member → leader: please end Token, I take over
	Members    MessageKind = "members"     // List: entries of the member list; Meta: what members tell of themselves
	GetMembers MessageKind = "get-members" // send me yours, it is another than mine
	Ping       MessageKind = "ping"        // to a member that the algorithm watches: Stamp
	Pong       MessageKind = "pong"        // its answer: the Stamp
	Named      MessageKind = "named"       // Data: of named elections, see internal/core/named
	Relay      MessageKind = "relay"       // Carried: to be passed on, or passed on; Ended: its receiver is not reached here
)

// Messages of the algorithms.
const (
	Election    MessageKind = "election"
	Answer      MessageKind = "answer"
	Coordinator MessageKind = "coordinator"
	Elected     MessageKind = "elected" // Chang–Roberts' announcement
)

// Speaker is an [Algorithm] with kinds of message of its own. A message of a kind that
// neither the Machine nor an algorithm of batuta's has, and that is not declared so, is
// counted and dropped where it arrives. What it says beside [Message.Round] goes in
// [Message.Data], in a layout of the algorithm's own.
type Speaker interface {
	Algorithm
	// Kinds are those that it adds: the same at every call, each at most 64 bytes that print.
	Kinds() []MessageKind
}

// Kinds are all kinds of message that members with this algorithm send each other.
func Kinds(a Algorithm) []MessageKind {
	kinds := []MessageKind{
		Beat, Ack, Probe, ProbeReply, Resign, Handover, Members, GetMembers, Ping, Pong, Relay, Named,
		Election, Answer, Coordinator, Elected,
	}
	if own, ok := a.(Speaker); ok {
		kinds = append(kinds, own.Kinds()...)
	}
	return kinds
}

// Round is one contest: a number and who started it. Messages of another round
// are late and dropped. Rounds are ordered by number, then initiator.
type Round struct {
	Number    uint64 `cbor:"n,omitempty"`
	Initiator ID     `cbor:"i,omitempty"`
}

// MemberState says what is known of a member.
type MemberState string

// States of a member.
const (
	StateUnknown     MemberState = ""            // nothing yet
	StateUp          MemberState = "up"          // heard within T
	StateUnreachable MemberState = "unreachable" // silent for T; may live
	StateDown        MemberState = "down"        // its process is gone
	StateAdded       MemberState = "added"       // has joined the list
	StateRemoved     MemberState = "removed"     // has left the list
)

// Message is what members send each other. One layout serves every kind; a
// field that a kind does not use is zero and takes no room on the wire.
// A Message is never changed after it has been sent.
type Message struct {
	Kind     MessageKind
	Election string // the election's name
	From, To ID

	Token       Token       // the leadership the message speaks of; see the kinds
	Highest     uint64      // the highest epoch the sender knows of
	Eligibility Eligibility // why the sender does not stand for election now; empty: it does
	Digest      uint32      // of the sender's member list

	MetaDigest uint32 // of what it knows that members tell of themselves; 0: nothing, or it is of an earlier version

	Round Round // the contest it belongs to
	Hops  int   // rings: how many members it may still pass

	Ended    bool          // ProbeReply: the sender knows that Token's leadership has ended
	Follows  bool          // ProbeReply: the sender follows Token's leader now, whoever told it to. Resign: another may lead; ask before a claim
	Age      time.Duration // ProbeReply: how long ago the sender heard Token's leader itself; negative: not within memory
	Stamp    int64         // Beat and Ack: when the beat left, in the leader's own time; a question and its ProbeReply: when that was asked, in the asker's
	Heir     ID            // Resign: who is to claim, and the others wait for it; empty: whoever wins
	Claimant uint64        // Resign of a quorum: the number of the member that is to claim, as Heir is its id elsewhere; 0: whoever wins
	Draining bool          // Beat: the leader is finishing its work before it hands over
	Side     int           // how many members acknowledge the leader of Token, itself included; 0: not known, or of no use here
	Young    bool          // the leadership of Token has just begun: Side is how many members may come to acknowledge it
	Renews   uint64        // the epoch under which the leadership of Token began, if that is lower: its epoch was raised since
	Version  uint64        // Beat and Ack: of the member states

	Pause *Pause // what the sender knows of a pause; nil: there never was one

	Ring   []Rank         // rings: the ids passed, or the one candidate
	List   []Member       // Members
	Meta   []Meta         // Members
	States []MemberReport // Beat: what the leader knows of the members

	Carried *Message // Relay: of another From, or to another To

	Data []byte // what an algorithm, or a core of its own, says in its own layout; at most [MaxData] bytes

	Shares *Shares // Beat and Ack, where there are named elections: see internal/core/named
}

// Pause is what a member knows of a pause of the cluster, in which the lead stays with one member.
type Pause struct {
	Version uint64        `cbor:"1,keyasint"`
	Left    time.Duration `cbor:"2,keyasint,omitempty"` // until it ends; 0: it has ended
	Holder  ID            `cbor:"3,keyasint,omitempty"` // the member that has the lead; None: the next leader
}

// MaxPause bounds the length of a pause.
const MaxPause = 7 * 24 * time.Hour

// Shares is what a beat and its acknowledgement tell of named elections.
type Shares struct {
	Stamp   int64  `cbor:"1,keyasint,omitempty"` // Ack: when it left, in its sender's time
	Echo    int64  `cbor:"2,keyasint,omitempty"` // Beat: the last Stamp of its receiver
	Version uint64 `cbor:"3,keyasint,omitempty"` // Beat: of the assignments; Ack: of what its sender has reported
	Digest  uint64 `cbor:"4,keyasint,omitempty"` // Beat: of the assignments
}

// MaxData bounds Message.Data.
const MaxData = 512 << 10

// MemberReport is one member's state as the leader sees it.
type MemberReport struct {
	ID          ID          `cbor:"i"`
	State       MemberState `cbor:"s,omitempty"`
	Epoch       uint64      `cbor:"e,omitempty"` // of the token it last acknowledged
	Eligibility Eligibility `cbor:"a,omitempty"` // why it does not stand, or [SaysStands]; empty: it is not told
}
