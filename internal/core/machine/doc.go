// Package machine is the pure core of batuta: a [Machine] is a member of an election, with its
// member list, failure detector, epochs and the algorithm behind one Step. It has no clock,
// goroutine, socket, file, lock, logger or unseeded randomness, so that the runtime and the simulator
// run the very same Machine, and what the simulator proves the runtime does.
//
// A driver steps the Machine with each [election.Event], does the [election.Action]s it returns in
// their order, and steps it again no later than its deadline. Package election documents for a
// driver's author what each asks for.
//
// # How to read it
//
// [Machine.Step] dispatches an event to the part that it is for. A Machine is in one
// [tenure.Phase] at a time, by a table of moves. It is a stack of parts: each holds the part below
// by value and calls it, and cannot reach a part above. From the top:
//
//   - Machine (machine.go): events, messages, timers, and the state for an exhaustive search
//   - listing (membership.go): changes of the member list, and two processes of one id
//   - watcher (detector.go, relay.go): which members live
//   - steward (handover.go): gives leadership away, as asked or as a member that is no candidate
//   - elector (leadership.go, handover.go): accepts, saves and ends leaderships, and steps the algorithm
//   - claimant (claim.go, discovery.go): every condition of a claim, and the questions about a leader
//   - mail (sending.go): what every message carries, and the way it goes
//   - stance (standing.go): why this member is a candidate, or is not
//   - crew (members.go, links.go): what is known of each member, and the connections; the packages
//     roster, outbox, meta and reaper
//   - ground (ground.go): the configuration, the time, the actions of a Step, and the packages alarm,
//     detector, epoch, tenure and pause
//
// The algorithm sees the elector, and nothing above it. Besides the stack there is core.go, for an
// algorithm that cannot live inside a Machine. Package newcomer asks to be admitted before there is
// one.
//
// Some names are older than docs/glossary.md: a beat is a heartbeat, to vouch is to confirm, the heir
// is the transfer target, a member that stands is a candidate, and a contest is an election.
package machine
