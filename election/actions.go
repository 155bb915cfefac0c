package election

import "time"

// Actions is what an [Algorithm] may see and do during a Step. It is valid only for that Step.
type Actions interface {
	// Self returns this member.
	Self() Rank

	// Members returns all members including this, lowest rank first. The caller must not change it.
	Members() []Rank

	// Rank returns a member's rank, or the zero Rank if id is no member.
	Rank(id ID) Rank

	// Eligible reports whether a member may be elected, as far as this member can tell: it is
	// not down and reports that it is a candidate. For this member: whether it may claim.
	Eligible(id ID) bool

	// Down reports whether a member counts as down.
	Down(id ID) bool

	// Leader returns the current leadership, zero while it is undefined.
	Leader() Token

	// Highest returns the highest epoch that this member has seen.
	Highest() uint64

	// Timing returns the configured timing with defaults filled in.
	Timing() Timing

	// Send sends msg to a member. The Machine fills in From, To, Election, Highest and
	// Eligibility. It drops a message to this member or to an id that is no member.
	Send(to ID, msg Message)

	// SetTimer arms the named timer to fire after d, and replaces its earlier setting.
	SetTimer(name string, d time.Duration)

	// CancelTimer disarms the named timer, if it is armed.
	CancelTimer(name string)

	// Claim makes this member the leader, under an epoch above the highest that it has seen.
	// Once the epoch is saved, the Algorithm gets LeaderElected and announces it. A claim is
	// ignored while this member is no candidate, still asks for the highest epoch, already saves
	// a leadership, or its detector finds a leader alive. The Machine may first ask members for a
	// leader, or higher members whether they are candidates by now: a claim takes as long.
	Claim()

	// Accept takes the leadership t that a message from from announces. Its token must be higher
	// than the current token, or equal and not reported as over. A sender with a lower token gets
	// a correction. Once t is saved, the Algorithm gets LeaderElected.
	Accept(t Token, from ID)

	// Vouch confirms to a member that calls an election that this member's leader is alive: it
	// sends the leadership and the age of the leader's last message. It does nothing without a
	// detector.
	Vouch(to ID)

	// Discover asks all members for their leadership, because an election came to nothing. No
	// claim is made until the answers are in, for T at most. If no member reports a leadership,
	// the Algorithm gets Started: before Discover returns if no member can be asked.
	Discover()

	// Watch makes the detector watch a member besides the leader, such as the successor in a
	// ring; None watches no member. PeerDown reports its end within a round trip of a crash, or
	// T of silence.
	Watch(id ID)

	// Note adds a line to the trace: what was done, about which member, and why.
	Note(what string, peer ID, why string)

	// AnswerTime returns how long a message to a member and its answer may travel: 2·t_max over
	// an open link, 4·t_max over a link that has yet to be made. The member's handling, up to
	// t_process, comes on top. AnswerTime changes nothing.
	AnswerTime(id ID) time.Duration
}

// Record is a line of the trace: what a Machine did and why. Drivers log it; the simulator
// prints and draws it.
type Record struct {
	At       time.Time
	Member   ID
	Election string
	What     string // "suspects", "asks", "claims", "leads", "follows", "loses", "sends", "receives", …
	Peer     ID
	Token    Token
	Message  *Message // of "sends" and "receives"
	Why      string
}

// MaxConnections is how many connections may be open between two members. Beyond that, the
// oldest that is not used ends at once.
const MaxConnections = 4

// Connection is a connection between two members, as either of them sees it.
type Connection struct {
	Dialed bool   // by this member, not by its peer
	Order  uint64 // position in the order in which the connections to the peer opened here
}

// Over reports whether c is used rather than other, between self and peer. Both ends choose the
// same connection, so their messages keep their order: the newest that the higher id has dialed,
// or else the newest. Unused connections end after [Timing.IdleTime] without a message; until
// then they are read.
func (c Connection) Over(other Connection, self, peer ID) bool {
	if c.Dialed != other.Dialed {
		return c.Dialed == (self.Compare(peer) > 0)
	}
	return c.Order > other.Order
}
