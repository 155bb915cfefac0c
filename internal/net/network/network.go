// Package network is the interface between a node and its connections. Batuta's own wire implements
// it, and so does the boss wire.
package network

import (
	"log/slog"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Network turns the Machine's actions into connections, and what happens to them into the Machine's
// events. All its methods are called in a turn of the node, Shut by the loop when that has ended.
type Network interface {
	// Send delivers m if it can. Without a link it emits LinkUp or DialFailed.
	Send(to election.ID, m *election.Message)
	// Dial emits LinkUp or DialFailed within [election.Timing.DialTime] and 2·t_max for the
	// answer, however often the connection is reset meanwhile. A dial of Self goes to this member's
	// address on the list, and always emits DialFailed.
	Dial(to election.ID)
	// Hangup ends the link to a member without an event.
	Hangup(to election.ID)
	// Add adds a member, or changes its address; Remove removes it.
	Add(id election.ID, addr string)
	Remove(id election.ID)
	// Lead reports a new view: t leads; zero: there is no leader.
	Lead(t election.Token)
	// Refusal returns why the last connection to a member was refused, by either end; "" once a
	// connection exists, and if neither end gave a reason.
	Refusal(id election.ID) string
	// Unresolved returns why the name in a member's address did not resolve at the last dial; "" if
	// it did, the address has no name, or the member is connected.
	Unresolved(id election.ID) string
	// Linked reports whether a link to a member exists.
	Linked(id election.ID) bool
	// Links returns the number of links.
	Links() int
	// Shut closes everything, and returns when every goroutine of the network has ended. Data on
	// its way is delivered within wait.
	Shut(wait time.Duration)
}

// Site is the node that a Network serves. Except where noted, a field may be used only in a turn:
// in the methods of [Network], and in what an [Inbox] calls.
type Site struct {
	Self        election.ID
	Cluster     string
	Election    string
	Algorithm   election.Algorithm // only its name and kinds of message
	Observer    bool
	Incarnation uint64
	Advertise   string   // HOST:PORT
	Join        []string // HOST:PORT of members to join through
	Timing      election.Timing
	Log         *slog.Logger // any goroutine
	Counters    *Counters    // any goroutine

	Turn   Turn   // any goroutine
	Settle func() // ends what was done in a turn: the Machine takes its steps, and the timer is set

	Emit        func(election.Event)                                // steps the Machine when the turn is settled
	Admit       func(peer election.Rank, incarnation uint64) error  // a process that dials this member: see [machine.Machine.Admit]
	AdmitAnswer func(peer election.Rank, incarnation uint64) error  // a process that answers a dial: see [machine.Machine.AdmitAnswer]
	AdmitJoin   func(e election.Member, incarnation uint64) error   // see [machine.Machine.AdmitJoin]
	Enter       func(e election.Member, holds election.Token) Entry // adds a newcomer to the list
	Attest      func(secret []byte) (ends bool)                     // a guard's secret: whether it ends a leadership that is, or was just, followed; nil: none does
	SameID      func(holder string, by election.ID)                 // a process at holder has this member's id, as a member reports

	Rank    func() election.Rank                                 // this member's, at present
	Check   func(m *election.Message) error                      // any goroutine: refuses what no honest member would send
	Entry   func(id election.ID) (e election.Member, known bool) // see [machine.Machine.Entry]
	View    func() election.Token                                // see [machine.Machine.View]
	Held    func() election.Token                                // see [machine.Machine.Held]
	Highest func() uint64                                        // see [machine.Machine.Highest]
}

// Entry is the answer to a newcomer that is added to the list.
type Entry struct {
	List  []election.Member
	Token election.Token // the leadership that this member follows
	Age   time.Duration  // of the last message from that leader
}
