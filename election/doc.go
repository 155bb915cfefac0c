// Package election is the pure core of batuta: the contract between an
// algorithm, the [Machine] that keeps it right, and the driver that performs
// what it decides. It has no clock, goroutine, socket, file, lock, logger or
// unseeded randomness, so that the runtime and the simulator run the very same
// Machine, and what the one proves the other does.
//
// A driver steps the Machine with each [Event], does the [Action]s it returns in
// their order, and steps it again no later than its deadline.
package election
