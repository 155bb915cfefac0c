// Package election is the contract between an [Algorithm], the machine that keeps it
// right (internal/core/machine), and the driver that performs what that decides: an [Event]
// happens, an [Action] is to be done, a [Message] goes from member to member, and a
// [Token] is one leadership. It has no clock, goroutine, socket, file, lock, logger or
// randomness, and imports nothing of batuta.
//
// # For the author of a driver
//
// The cores are internal, so a driver belongs to this module.
// A driver owns one core, such as a [machine.Machine], and is the only one to use it. It
// knows the time, the network and the disk; the core knows none of them.
//
//  1. Make the core from what the disk has: [State], and an incarnation above that of
//     every earlier process with the id. Save that incarnation before anything is sent.
//  2. Step it with [Started]; from then on with each [Event], one at a time, and the
//     time since some moment that never runs backwards and counts while the machine
//     sleeps. A driver whose clock stands still in a pause leads longer than it may.
//  3. After each step ask for the deadline, and step it with [Woke] no later than that.
//     Late is allowed, and noticed: a core that was not stepped for T gives up the lead.
//  4. Do the actions of each step in their order, before the next step. The order is the
//     promise: whoever leads is told to stop before the next token is saved, and that is
//     saved before anyone hears of it.
//
// What to do with each [Action]:
//
//   - [NotifyLost]: stop the work of Token's leadership before anything else happens,
//     and tell the user. Work begins and ends with [Working].
//   - [NotifyElected]: tell the user that Token leads.
//   - [NotifyRenewed]: Token is that of the present leadership from now on. Its work goes on.
//   - [Save]: write State so that it outlives a power cut, off the loop, and step with
//     [Saved]; with Err if the disk refuses. There is one at a time.
//   - [Send]: send Message, over the connection that stands, or dial for it. It is best
//     effort, in order over one connection, and never waits.
//   - [Dial]: connect; step with [LinkUp] when the other end has said who it is, or with
//     [DialFailed], Refused if nobody listens there: that is how a crash is found out in
//     a round trip.
//   - [Hangup]: close what stands, and step with nothing.
//   - [Notify]: a member's state has changed; its address, with [StateAdded].
//   - [Rejoin]: ask to be let in again.
//   - [Halt]: this member can take no further part, because of Err. End.
//
// To end, step with [Closing]: whoever leads gives up the lead, and nobody stands again
// meanwhile. Go on as before until the work has stopped and [Working] has said so; step with
// [Leaving] if the member is to give up its membership, too. Then close the connections,
// with what they have still to carry, and wait for the outstanding Save.
//
// When a connection ends, step with [LinkDown]; what has come in on it before, first.
// Refuse what the core's Admit refuses. Check every message from outside before it
// becomes a [Received]: from whom it says, of a kind of [Kinds], with ids that
// [CheckIDs] passes.
//
// # For the author of an algorithm
//
// An [Algorithm] decides one thing: who should lead next. The epochs, the disk, the
// failure detector, joining, resigning and the hand-over to a member that returns are the
// machine's, the same for every algorithm. It is told what happens and says what to do:
//
//   - [Started] and [LeaderLost]: there is no leader; begin a contest. [Campaign]: the user
//     asks for one; begin it too, though somebody leads.
//   - [Received]: a message of another member's algorithm. [TimerFired]: a timer of its
//     own. [PeerDown], [PeerUp]: what the detector thinks. [Withdrawn]: one that was to
//     lead cannot; find another.
//   - Who has won calls [Actions].Claim. The machine takes the next epoch and saves it;
//     then [LeaderElected] says that this member leads, and it tells the others. Whoever hears
//     that calls [Actions].Accept, and gets LeaderElected once it is saved there.
//   - A claim or an announcement may come to nothing: a disk refuses, a higher token is
//     known. So every wait has a timer, and begins anew when it runs out.
//
// [Message.Round] tells one contest from another; a late message is dropped by it. What
// else an algorithm says goes in [Message.Data], in messages of its own kinds; it is a
// [Speaker] then. It draws on nothing but its events: no clock, no randomness, no order
// of a map, so that the lab can play every run again.
//
// The example, example_test.go here, is whole: an algorithm in sixty lines, in the lab.
// electiontest.Run tries it, and names the rule that it breaks. Package
// examples/algorithm/franklin is one from the literature, with messages of its own.
//
// [machine.Machine]: https://pkg.go.dev/github.com/batuta-dev/batuta/internal/core/machine#Machine
package election
