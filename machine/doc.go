// Package machine is the pure core of batuta: a [Machine] is one member of one
// election, with its member list, failure detector, epochs and the algorithm behind one
// Step. It has no clock, goroutine, socket, file, lock, logger or unseeded randomness,
// so that the runtime and the simulator run the very same Machine, and what the one
// proves the other does.
//
// A driver steps the Machine with each [election.Event], does the [election.Action]s it
// returns in their order, and steps it again no later than its deadline.
package machine
