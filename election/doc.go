// Package election is the contract between an [Algorithm], the machine that keeps it
// right (package machine), and the driver that performs what that decides. It holds
// what they tell each other: an [Event] happens, an [Action] is to be done, a [Message]
// goes from member to member, and a [Token] is one leadership. It has no clock,
// goroutine, socket, file, lock, logger or randomness.
package election
