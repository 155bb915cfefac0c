package election

import (
	"encoding/binary"
	"time"
)

// EventKind is what happened to a Machine or to its Algorithm.
type EventKind uint8

// Events. The first group comes from the driver. The Machine passes some of them on to the
// Algorithm and adds the second group.
const (
	Started       EventKind = iota + 1 // the process runs, admitted as by JoinAccepted if List is set; for the Algorithm: begin an election, as after a recovery
	Received                           // Message has arrived
	TimerFired                         // the Algorithm's timer Name has expired
	PeerDown                           // Peer is dead, or counts as dead
	PeerUp                             // a message from Peer has come again
	Campaign                           // the user requests an election
	Resigned                           // the user asks the Machine to step down
	Transfer                           // the user asks the leader to hand over to Peer; ignored if this member may not
	LinkUp                             // a connection to Peer is open, the first or a further one; Rank and Incarnation are as Peer presented itself
	LinkDown                           // the last connection to Peer has ended
	DialFailed                         // Peer did not answer a dial, though an earlier connection may be open; Refused: no process listens there
	Saved                              // the last Save is done, or failed with Err
	Working                            // the leader's work has begun (On) or has all stopped (!On)
	Health                             // the result of this member's health check: healthy (On) or not
	JoinRequested                      // Member, which holds Token and its entry's Version, asks to join through this member; AdmitJoin has admitted it
	JoinAccepted                       // the member that admitted this member sent its List and, if it has any, the leadership Token, last confirmed Age ago
	MemberAdded                        // the user adds Member to the list
	MemberRemoved                      // the user removes Peer
	Leaving                            // this member leaves the cluster permanently
	Closing                            // this process is about to end: its member gives up leadership, and is no candidate for the rest of this life
	Candidacy                          // the user has work for a leader (On), as at first, or no longer (!On)
	Tells                              // the user sets this member's metadata to Meta
	Pausing                            // the user fixes leadership for Age, or ends that with 0
	Sworn                              // a guard has the secret of Token, this member's leadership, and its commitment is Proof
	Attested                           // Proof has come from outside: the secret of a leadership that is over, its process dead and its work stopped
	Woke                               // only time: the deadline has passed; with Peer: that member has sent something that concerns no election of the cluster

	LeaderLost    // to the Algorithm: there is no leader now; begin an election
	LeaderElected // to the Algorithm: Token is the leadership now and is saved; elections are over
	Withdrawn     // to the Algorithm: Peer is no longer a candidate, and there is no leader; if Peer is this member, its claim failed: find a different leader
)

// Event is the input of a step of a Machine or an Algorithm.
type Event struct {
	Kind        EventKind
	Peer        ID                // Transfer, PeerDown, PeerUp, LinkUp, LinkDown, DialFailed, Withdrawn; Woke
	Message     *Message          // Received
	Name        string            // TimerFired
	Rank        Rank              // LinkUp
	Incarnation uint64            // LinkUp; DialFailed with ErrSameID: of the process that refuses
	Refused     bool              // DialFailed
	On          bool              // Working, Health, Candidacy; MemberAdded: Member's priority is set, else the present priority stays; MemberRemoved: by force
	Token       Token             // LeaderElected, LeaderLost (the leadership that ended), Started, JoinRequested, JoinAccepted
	Err         error             // Saved, DialFailed (a live member refuses)
	Member      Member            // JoinRequested, MemberAdded; DialFailed with ErrRemoved, ErrOldIncarnation or ErrSameID: the peer's entry of this member
	List        []Member          // Started, JoinAccepted
	Age         time.Duration     // Started, JoinAccepted; Pausing
	Meta        map[string]string // Tells; valid by [CheckMeta]
	Proof       []byte            // Sworn, Attested; 32 bytes
}

// Algorithm decides which member should lead. It holds no clock, goroutine, socket or lock: its
// input is events, and it acts through out. The Machine around it keeps the epochs, the disk,
// the detector and the hand-overs. So every algorithm has them, and none can get them wrong.
//
// An Algorithm belongs to a single Machine.
type Algorithm interface {
	// Name returns its name for users, such as "bully".
	Name() string
	// Step handles an event: Started, Received, TimerFired, PeerDown, PeerUp, Campaign,
	// LeaderLost, LeaderElected or Withdrawn. It ignores kinds that it does not support.
	Step(ev Event, out Actions)
}

// Explorable is an Algorithm that can be searched exhaustively.
type Explorable interface {
	Algorithm
	// Clone returns an independent copy.
	Clone() Algorithm
	// AppendState appends all of the state that decides later behavior, with every round number
	// written relative to base.
	AppendState(b []byte, base uint64) []byte
	// MinRound returns the lowest round number that it holds (0: none).
	MinRound() uint64
}

// ActionKind is what a driver must do.
type ActionKind uint8

// Actions, done in the order given: stop leading at once, then save, then send.
const (
	NotifyElected ActionKind = iota + 1 // notify the user that Token leads now
	NotifyLost                          // notify the user that the leadership Token has ended, by Cause
	Save                                // write State; step with Saved when it is safe on disk
	Send                                // send Message to To, dialing if no link is open; best effort
	Dial                                // open a link to To: connected within 2·t_max, and answered within as much again; step with LinkUp or DialFailed. To may be this member: then dial the address in its entry
	Hangup                              // close every link to To
	Notify                              // Member's Status has changed; with StateAdded it is reached at Address
	Rejoin                              // ask To, whose list lacks this member, for admission; None: ask all through which it joins, again
	Halt                                // this member can take no further part, because of Err
	Append                              // write Records after those on disk, or with Replace instead of them, as a single synced write; step with Saved when they are safe
	Warn                                // report Err to the operator
	Learn                               // Member, which may be this member, publishes the metadata Meta now
	NotifyRenewed                       // the present leadership goes on under Token, a higher epoch
)

// Cause is why a leadership ended.
type Cause string

// Causes.
const (
	CauseCrashed    Cause = "crashed"    // its process is dead
	CauseSilent     Cause = "silent"     // no message from it, or no acknowledgement, for T
	CauseResigned   Cause = "resigned"   // it stepped down or handed over
	CauseRemoved    Cause = "removed"    // it is no longer a member
	CauseStalled    Cause = "stalled"    // its process was stopped for longer than T
	CauseSuperseded Cause = "superseded" // there is a higher token
	CauseStopped    Cause = "stopped"    // this member is closing
)

// Action is something that a driver must do.
type Action struct {
	Kind    ActionKind
	To      ID                // Send, Dial, Hangup, Rejoin
	Message *Message          // Send
	Token   Token             // NotifyElected, NotifyLost, NotifyRenewed
	Cause   Cause             // NotifyLost
	State   State             // Save
	Member  ID                // Notify, Learn
	Status  MemberState       // Notify
	Address string            // Notify with StateAdded; Dial: where, if not empty; Halt with ErrSameID: the address of the process with that id
	Err     error             // Halt, Warn
	Records [][]byte          // Append: opaque to the driver
	Replace bool              // Append
	Meta    map[string]string // Learn; not to be changed
}

// State is what a member keeps across its own crash.
type State struct {
	ID          ID
	Incarnation uint64   // of the process that wrote it
	Token       Token    // the highest leadership accepted or claimed
	Members     []Member // the member list, tombstones included
}

// AppendRelative appends n relative to base. It appends 0 as 0, since "none" does not shift.
func AppendRelative(b []byte, n, base uint64) []byte {
	if n > 0 {
		n = n - base + 1
	}
	return binary.AppendUvarint(b, n)
}
