package election

import "time"

// MessageKind names a message. The algorithms' kinds are from the papers; the rest are the
// Machine's own.
type MessageKind string

// Messages of the Machine: the detector and the epoch. Their texts are on the wire, and must not
// change.
const (
	Beat       MessageKind = "beat"        // leader → member: Token, Stamp; Draining; States when they changed
	Ack        MessageKind = "ack"         // member → leader: Token held, the last heartbeat's Stamp and Version
	Probe      MessageKind = "query"       // requests a report; Token: the leadership asked about
	ProbeReply MessageKind = "report"      // Token held, Ended, Age of the last message from that leader
	Resign     MessageKind = "resign"      // leader → all: the leadership Token has ended; Heir is to lead next
	Handover   MessageKind = "handover"    // higher-ranked member → leader: request to end Token, the sender takes over
	Members    MessageKind = "members"     // List: entries of the member list; Meta: members' metadata
	GetMembers MessageKind = "get-members" // requests the receiver's list, which differs
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

// Speaker is an [Algorithm] with its own kinds of message. A message of a kind that neither the
// Machine nor an algorithm of batuta has, and that is not declared, is counted and dropped where
// it arrives. Its content besides [Message.Round] goes in [Message.Data], in a layout of the
// algorithm.
type Speaker interface {
	Algorithm
	// Kinds returns the kinds that it adds: the same at every call, each at most 64 printable
	// bytes.
	Kinds() []MessageKind
}

// Kinds returns all kinds of message between members with this algorithm.
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

// Round is an election: a number and its initiator. Messages of a different round are late and
// dropped. Rounds are ordered by number, then initiator.
type Round struct {
	Number    uint64 `cbor:"n,omitempty"`
	Initiator ID     `cbor:"i,omitempty"`
}

// MemberState is what a member knows about a member.
type MemberState string

// States of a member.
const (
	StateUnknown     MemberState = ""            // nothing yet
	StateUp          MemberState = "up"          // a message came within T
	StateUnreachable MemberState = "unreachable" // silent for T; may live
	StateDown        MemberState = "down"        // its process is dead
	StateAdded       MemberState = "added"       // has joined the list
	StateRemoved     MemberState = "removed"     // has left the list
)

// Message is what members send to each other. All kinds share a layout: a field that a kind does
// not use is zero and takes no space on the wire. A Message is never changed after it has been
// sent.
type Message struct {
	Kind     MessageKind
	Election string // the election's name
	From, To ID

	Token       Token       // the leadership that the message is about; see the kinds
	Highest     uint64      // the highest epoch that the sender has seen
	Eligibility Eligibility // why the sender is not a candidate now; empty: it is
	Digest      uint32      // of the sender's member list

	MetaDigest uint32 // of the members' metadata at the sender; 0: none, or the sender has an earlier version

	Round Round // the election that it belongs to
	Hops  int   // rings: how many members it may still pass

	Ended    bool          // ProbeReply: Token's leadership has ended, as the sender has learned
	Follows  bool          // ProbeReply: the sender follows Token's leader now, directly or not. Resign: there may be a different leader; ask before a claim
	Age      time.Duration // ProbeReply: how long ago the sender received from Token's leader; negative: longer than it remembers
	Stamp    int64         // Beat and Ack: when the heartbeat left, in the leader's own time; a question and its ProbeReply: when the question left, in its sender's
	Heir     ID            // Resign: the member that is to claim while the rest wait; empty: the winner of an election
	Claimant uint64        // Resign of a quorum: the number of the member that is to claim, as Heir is its id elsewhere; 0: the winner of an election
	Cause    Cause         // of a member about its own leadership, Token, that has ended: why; empty: it stepped down or handed over, or the sender has an earlier version
	Draining bool          // the sender leads no more, and its work still runs
	Side     int           // how many members acknowledge the leader of Token, itself included; 0: unknown or unused
	Young    bool          // the leadership of Token has just begun: Side is how many members may come to acknowledge it
	Renews   uint64        // the epoch under which the leadership of Token began, if that is lower: its epoch was raised since
	Version  uint64        // Beat and Ack: of the member states
	Leads    bool          // the sender leads
	Change   uint64        // how often Eligibility, Draining or Leads has changed: orders the sender's messages
	Process  uint64        // of a message that a Relay carries: the incarnation of its sender

	Pause *Pause // the sender's state of a pause; nil: there never was a pause

	Ring   []Rank         // rings: the ids passed, or the candidate
	List   []Member       // Members
	Meta   []Meta         // Members
	States []MemberReport // Beat: the members' states at the leader

	Carried *Message // Relay: from a different From, or to a different To

	Data []byte // content in the layout of an algorithm or of its own core; at most [MaxData] bytes

	Shares *Shares // Beat and Ack, where there are named elections: see internal/core/named
}

// Pause is a member's state of a pause of the cluster, in which leadership stays with a member.
type Pause struct {
	Version uint64        `cbor:"1,keyasint"`
	Left    time.Duration `cbor:"2,keyasint,omitempty"` // until it ends; 0: it has ended
	Holder  ID            `cbor:"3,keyasint,omitempty"` // the member that leads; None: the next leader
}

// MaxPause is the maximum length of a pause.
const MaxPause = 7 * 24 * time.Hour

// Shares is the part of a heartbeat and its acknowledgement about named elections.
type Shares struct {
	Stamp   int64  `cbor:"1,keyasint,omitempty"` // Ack: when it left, in its sender's time
	Echo    int64  `cbor:"2,keyasint,omitempty"` // Beat: the last Stamp of its receiver
	Version uint64 `cbor:"3,keyasint,omitempty"` // Beat: of the assignments; Ack: of what its sender has reported, 0 until that has been taken in
	Digest  uint64 `cbor:"4,keyasint,omitempty"` // Beat: of the assignments
}

// MaxData is the maximum length of Message.Data, in bytes.
const MaxData = 512 << 10

// MemberReport is a member's state at the leader.
type MemberReport struct {
	ID          ID          `cbor:"i"`
	State       MemberState `cbor:"s,omitempty"`
	Epoch       uint64      `cbor:"e,omitempty"` // of the token that it last acknowledged
	Eligibility Eligibility `cbor:"a,omitempty"` // why it is not a candidate, or [SaysEligible]; empty: not reported
}
