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
// [tenure.Phase] at a time, by a table of moves. Its parts own their fields: the file that
// declares a part alone writes them, the others read them or call its methods.
//
//   - the members: package roster (the list), members.go (what is known of each: roll, which has
//     no reference to its Machine), membership.go, joins.go, removals.go (what a change of the
//     list does), package meta and meta.go, duplicate.go (two processes of one id)
//   - messages and silence: links.go, detector.go, beats.go, relay.go, answer.go (how long an
//     answer may take), unconfirmed.go (what is resent)
//   - eligibility: standing.go (this member), eligibility.go (what members report of
//     themselves), founding.go
//   - leadership: package tenure, discovery.go (asking before a claim), leadership.go,
//     handover.go and transfer.go (giving it away), departing.go (work that has still to stop)
//   - what is kept: saving.go
//   - the rest: package alarm and timers.go, sending.go, phase.go; newcomer.go, which asks to be let in
//     before there is a Machine; core.go, for an algorithm that cannot live inside one;
//     explore.go, for exhaustive search
package machine
