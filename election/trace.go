package election

import "time"

// Record is a line of the trace: what a Machine did and why. Drivers log it; the simulator
// prints and draws it.
type Record struct {
	At       time.Time
	Member   ID
	Election string
	What     string // "suspects", "asks", "claims", "leads", "follows", "loses", "sends", "receives", …
	Peer     ID
	Token    Token
	Message  *Message // of "sends" and "receives"
	Why      string
}
