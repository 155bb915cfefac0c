package election

import (
	"encoding/binary"
	"time"
)

// EventKind says what happened to a Machine or, of these, to its Algorithm.
type EventKind uint8

// Events. The first group comes from the driver; the Machine passes some of
// them on to the Algorithm and adds the second group.
const (
	Started       EventKind = iota + 1 // the process runs, let in as by JoinAccepted if List says so; for the Algorithm: begin a contest, as one that recovered does
	Received                           // Message has arrived
	TimerFired                         // the Algorithm's timer Name has run out
	PeerDown                           // Peer is gone, or counts as gone
	PeerUp                             // Peer is heard of again
	Campaign                           // the user asks for a contest
	Resigned                           // the user asks the Machine to step down
	Transfer                           // the user asks the leader to hand over to Peer alone; one that may not do so does nothing
	LinkUp                             // a connection to Peer stands, the first or one more; Rank and Incarnation are what it said of itself
	LinkDown                           // the last connection to Peer has ended
	DialFailed                         // Peer did not answer a dial, though another connection to it may stand; Refused: nobody listens there
	Saved                              // the last Save is done, or failed with Err
	Working                            // the leader's work has begun (On) or has all stopped (!On)
	Health                             // this member's own check: healthy (On) or not
	JoinRequested                      // Member, which holds Token and its entry's Version, asks to join through us; AdmitJoin has let it
	JoinAccepted                       // who let us join has told us its List and, if it knows one, the leadership Token, heard Age ago
	MemberAdded                        // the user puts Member on the list
	MemberRemoved                      // the user removes Peer
	Leaving                            // this member leaves the cluster for good
	Closing                            // this process is about to end: its member gives up the lead, and stands no more in this life
	Candidacy                          // the user has something for a leader to do (On), as at first, or nothing any more (!On)
	Tells                              // the user has this member tell Meta of itself
	Pausing                            // the user has the lead stay where it is for Age, or ends that with 0
	Sworn                              // a guard has the secret of Token, this member's leadership, and its commitment is Proof
	Attested                           // Proof has come from outside: the secret of a leadership that is over, its process dead and its work gone
	Woke                               // nothing but time: the deadline has passed

	LeaderLost    // to the Algorithm: there is no leader now; begin a contest
	LeaderElected // to the Algorithm: Token is the leadership now and is saved; contests are over
	Withdrawn     // to the Algorithm: Peer no longer stands, and nobody leads; this member itself, if it had claimed: find another
)

// Event is what a Machine or an Algorithm is stepped with.
type Event struct {
	Kind        EventKind
	Peer        ID                // Transfer, PeerDown, PeerUp, LinkUp, LinkDown, DialFailed, Withdrawn
	Message     *Message          // Received
	Name        string            // TimerFired
	Rank        Rank              // LinkUp
	Incarnation uint64            // LinkUp; DialFailed with ErrSameID: of the process that refuses
	Refused     bool              // DialFailed
	On          bool              // Working, Health, Candidacy; MemberAdded: Member's priority is said, else what is known stays; MemberRemoved: by force
	Token       Token             // LeaderElected, LeaderLost (the one that ended), Started, JoinRequested, JoinAccepted
	Err         error             // Saved, DialFailed (a live member refuses)
	Member      Member            // JoinRequested, MemberAdded; DialFailed with ErrRemoved, ErrOldIncarnation or ErrSameID: the entry that the other has of us
	List        []Member          // Started, JoinAccepted
	Age         time.Duration     // Started, JoinAccepted; Pausing
	Meta        map[string]string // Tells; sound by [CheckMeta]
	Proof       []byte            // Sworn, Attested; 32 bytes
}

// Algorithm decides who should lead. It holds no clock, goroutine, socket or
// lock: it is told what happened and says, through out, what to do. The Machine
// around it keeps the epochs, the disk, the detector and the hand-overs, so that
// every algorithm has them and none can get them wrong.
//
// An Algorithm belongs to one Machine.
type Algorithm interface {
	// Name is what the user calls it, such as "bully".
	Name() string
	// Step handles one event: Started, Received, TimerFired, PeerDown, PeerUp,
	// Campaign, LeaderLost, LeaderElected or Withdrawn. It does nothing about what it does not know.
	Step(ev Event, out Actions)
}

// Explorable is an Algorithm that can be searched exhaustively.
type Explorable interface {
	Algorithm
	// Clone gives an independent copy.
	Clone() Algorithm
	// AppendState appends all of the state that decides later behaviour, with
	// every round number written relative to base.
	AppendState(b []byte, base uint64) []byte
	// MinRound is the lowest round number it holds (0: none).
	MinRound() uint64
}

// ActionKind says what a driver is to do.
type ActionKind uint8

// Actions, done in the order given: stop leading at once, then save, then tell others.
const (
	NotifyElected ActionKind = iota + 1 // tell the user that Token leads now
	NotifyLost                          // tell the user that the leadership Token has ended, by Cause
	Save                                // write State; step with Saved when it is safe on disk
	Send                                // send Message to To, dialing when no link stands; best effort
	Dial                                // open a link to To: connected within 2·t_max, and answered within as much again; step with LinkUp or DialFailed. To this member itself: where its entry has it
	Hangup                              // close every link to To
	Notify                              // Member's Status has changed; with StateAdded it is reached at Address
	Rejoin                              // ask To, who does not know this member, to let it join; None: ask everyone through whom it joins, once more
	Halt                                // this member can take no further part, because of Err
	Append                              // write Records behind those that are on disk, or with Replace instead of them, as one synced write; step with Saved when they are safe
	Warn                                // tell the operator of Err
	Learn                               // Member, which may be this one, tells Meta of itself now
	NotifyRenewed                       // the present leadership goes on under Token, a higher epoch
)

// Cause is why a leadership ended.
type Cause string

// Causes.
const (
	CauseCrashed    Cause = "crashed"    // its process is gone
	CauseSilent     Cause = "silent"     // not heard, or not acknowledged, for T
	CauseResigned   Cause = "resigned"   // it stepped down or handed over
	CauseRemoved    Cause = "removed"    // it is no member any more
	CauseStalled    Cause = "stalled"    // this process was stopped for longer than T
	CauseSuperseded Cause = "superseded" // a higher token is known
	CauseStopped    Cause = "stopped"    // this member is closing
)

// Action is one thing a driver must do.
type Action struct {
	Kind    ActionKind
	To      ID                // Send, Dial, Hangup, Rejoin
	Message *Message          // Send
	Token   Token             // NotifyElected, NotifyLost, NotifyRenewed
	Cause   Cause             // NotifyLost
	State   State             // Save
	Member  ID                // Notify, Learn
	Status  MemberState       // Notify
	Address string            // Notify with StateAdded; Dial: where, if not empty; Halt with ErrSameID: where the other process is
	Err     error             // Halt, Warn
	Records [][]byte          // Append: opaque to the driver
	Replace bool              // Append
	Meta    map[string]string // Learn; not to be changed
}

// State is what a member keeps across its own death.
type State struct {
	ID          ID
	Incarnation uint64   // of the process that wrote it
	Token       Token    // the highest leadership accepted or claimed
	Members     []Member // the member list, tombstones included
}

// AppendRelative appends n relative to base, and 0 as itself: "none" is not a
// number that shifts.
func AppendRelative(b []byte, n, base uint64) []byte {
	if n > 0 {
		n = n - base + 1
	}
	return binary.AppendUvarint(b, n)
}
