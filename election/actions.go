package election

import "time"

// Actions is what an [Algorithm] may see and do during one Step. It is valid for that
// Step alone.
type Actions interface {
	// Self is this member.
	Self() Rank

	// Members are all members, this one included, lowest rank first. Read only.
	Members() []Rank

	// Rank is a member's rank; the zero Rank for a stranger.
	Rank(id ID) Rank

	// Eligible reports whether a member may be elected as far as is known: it is not
	// down and says of itself that it stands. For this member: whether it may claim.
	Eligible(id ID) bool

	// Down reports whether a member counts as down.
	Down(id ID) bool

	// Leader is the current leadership, zero while it is undefined.
	Leader() Token

	// Highest is the highest epoch this member knows of.
	Highest() uint64

	// Timing is the configured timing, defaults filled in.
	Timing() Timing

	// Send sends msg to another member. The Machine fills in From, To, Election,
	// Highest and Eligibility. What goes to a stranger or to this member is dropped.
	Send(to ID, msg Message)

	// SetTimer arms the named timer to fire after d, replacing its earlier setting.
	SetTimer(name string, d time.Duration)

	// CancelTimer disarms the named timer, if it is armed.
	CancelTimer(name string)

	// Claim makes this member the leader, under an epoch above the highest it knows.
	// Once the epoch is saved the Algorithm gets LeaderElected and announces it. A claim
	// is ignored while this member does not stand, still asks for the highest
	// epoch, already saves a leadership, or its detector finds a leader alive.
	Claim()

	// Accept takes the leadership t that a message from from announces, if its token
	// is good: higher than the one held, or equal and not known to have ended. A
	// sender with a lower one is told so. Once saved, the Algorithm gets LeaderElected.
	Accept(t Token, from ID)

	// Vouch tells a member that calls an election which leadership this one follows
	// and how long ago it heard that leader. It does nothing without a detector.
	Vouch(to ID)

	// Discover asks everyone what leadership they know, because a contest has come to
	// nothing. Nothing is claimed until the answers are in, for T at most. The Algorithm
	// gets Started when nobody knows any: before Discover returns if nobody can be asked.
	Discover()

	// Watch has the detector watch one more member beside the leader, such as the
	// successor in a ring; None watches nobody. Its end is told as PeerDown within a
	// round trip of a crash, or T of silence.
	Watch(id ID)

	// Note adds a line to the trace: what was done, about whom, and why.
	Note(what string, peer ID, why string)

	// AnswerTime is how long a message that goes to another member now, and its answer,
	// may travel: 2·t_max over a link that stands, 4·t_max over one that has yet to be
	// made. What the other does in between, up to t_process, comes on top. It does not
	// change anything.
	AnswerTime(id ID) time.Duration
}
