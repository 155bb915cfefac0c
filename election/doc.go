// Package election is the contract between three parts: an [Algorithm], the machine that ensures
// its safety (internal/core/machine), and the driver that performs the machine's decisions. An
// [Event] is what happened, an [Action] what to do, a [Message] goes from member to member, and
// a [Token] identifies a leadership. The package has no clock, goroutine, socket, file, lock,
// logger or randomness, and imports nothing of batuta.
//
// # For the author of a driver
//
// The cores are internal, so a driver belongs to this module. A driver owns a single core, such
// as a [machine.Machine], and only the driver uses it. The driver has the time, the network and
// the disk; the core has none of them.
//
//  1. Make the core from what the disk has: [State], and an incarnation above that of
//     every earlier process with the id. Save that incarnation before anything is sent.
//  2. Step it with [Started]; then with each [Event], in turn, and the time since some
//     moment. That time never runs backwards and counts while the machine sleeps. A
//     driver with a clock that stops in a pause leads longer than it may.
//  3. After each step ask for the deadline, and step with [Woke] no later than that. Late
//     is allowed and detected: a core that was not stepped for T gives up leadership.
//  4. Do the actions of each step in their order, before the next step. The order is the
//     promise: a leader stops before the next token is saved, and the token is saved
//     before it is sent or announced.
//
// What to do with each [Action]:
//
//   - [NotifyLost]: stop the work of Token's leadership before anything else happens,
//     and notify the user. Work begins and ends with [Working].
//   - [NotifyElected]: notify the user that Token leads.
//   - [NotifyRenewed]: Token is that of the present leadership from now on. Its work goes on.
//   - [Save]: write State so that it survives a power failure, off the loop, and step with
//     [Saved]; with Err if the disk refuses. At most a single Save is outstanding.
//   - [Send]: send Message over the open connection, or dial for it. It is best effort, in
//     order over a connection, and never waits.
//   - [Dial]: connect; step with [LinkUp] when the peer has presented itself, or with
//     [DialFailed], with Refused if no process listens there: so a crash is detected in a
//     round trip.
//   - [Hangup]: close all connections to a member, and step with nothing.
//   - [Notify]: a member's state has changed; its address, with [StateAdded].
//   - [Rejoin]: ask for admission again.
//   - [Halt]: this member can take no further part, because of Err. End.
//
// To end, step with [Closing]: a leader gives up leadership, and the member is no longer a
// candidate. Go on as before until the work has stopped and you have stepped with [Working].
// Step with [Leaving] if the member gives up its membership too. Then close the connections
// after their pending data, and wait for the outstanding Save.
//
// When a connection ends, step with [LinkDown], after all messages that came over it. Refuse
// what the core's Admit refuses. Check every message from outside before it becomes a
// [Received]: its sender is the member at that connection, its kind is in [Kinds], and its ids
// pass [CheckIDs].
//
// # For the author of an algorithm
//
// An [Algorithm] decides only which member should lead next. The epochs, the disk, the failure
// detector, joining, resigning and the hand-over to a returning member are the machine's, the
// same for every algorithm. The algorithm receives events and acts:
//
//   - [Started] and [LeaderLost]: there is no leader; begin an election. [Campaign]: the
//     user requests an election; begin it even if there is a leader.
//   - [Received]: a message of the algorithm at a different member. [TimerFired]: a timer
//     of its own. [PeerDown], [PeerUp]: reports of the detector. [Withdrawn]: the member
//     that was to lead cannot; find a different leader.
//   - A winner calls [Actions].Claim. The machine takes the next epoch and saves it. Then
//     [LeaderElected] reports that this member leads, and the algorithm announces it. A
//     member that receives the announcement calls [Actions].Accept, and gets LeaderElected
//     once it is saved there.
//   - A claim or an announcement may come to nothing: a disk refuses, or there is a higher
//     token. So every wait has a timer, and begins again when it expires.
//
// [Message.Round] distinguishes elections, so a late message can be dropped. An algorithm's own
// data goes in [Message.Data], in messages of its own kinds; then it is a [Speaker]. It depends
// only on its events: on no clock, no randomness and no order of a map, so the lab can replay
// every run.
//
// The example in example_test.go is complete: an algorithm in sixty lines, in the lab.
// electiontest.Run tests it and names the rules that it breaks. Package
// examples/algorithm/franklin is an algorithm from the literature, with its own messages.
//
// [machine.Machine]: https://pkg.go.dev/github.com/batuta-dev/batuta/internal/core/machine#Machine
package election
