// Package network is what a node asks of its connections, and what these may ask of
// their node. Batuta's own wire is one implementation, the boss's another.
package network

import (
	"log/slog"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Network turns what the Machine wants into connections, and what happens to them
// into the Machine's events. All its methods are called on the node's loop, Shut
// after it.
type Network interface {
	// Arrivals gives what is to be done on the node's loop because of what came in.
	Arrivals() <-chan func()
	// Send delivers m if it can. If no link stands it tells LinkUp or DialFailed.
	Send(to election.ID, m *election.Message)
	// Dial tells LinkUp or DialFailed within [election.Timing.DialTime] and 2·t_max for
	// the answer, however often the connection is reset meanwhile. To Self it asks at the
	// address that the list has of it, and tells DialFailed, whoever answers.
	Dial(to election.ID)
	// Hangup ends the link to a member and tells nothing of it.
	Hangup(to election.ID)
	// Add makes a member known, or gives it another address; Remove forgets it.
	Add(id election.ID, addr string)
	Remove(id election.ID)
	// Lead says that the view has changed: t leads; zero: nobody.
	Lead(t election.Token)
	// Refusal says why the last connection to a member was refused, by either end; ""
	// once one stands, and where no end says so.
	Refusal(id election.ID) string
	// Unresolved is why the name in the address of a member did not resolve when it was last dialed; "" if
	// it did, the address has none, or the member is connected.
	Unresolved(id election.ID) string
	// Linked reports whether a link to a member stands.
	Linked(id election.ID) bool
	// Links is how many links stand.
	Links() int
	// Shut ends everything, and returns when every goroutine of the network has. What
	// is on its way has wait to be delivered.
	Shut(wait time.Duration)
}

// Site is the node that a Network serves. Unless it says otherwise a field may be
// used on the loop alone: in the methods of [Network] and in what Arrivals gives.
type Site struct {
	Self        election.ID
	Cluster     string
	Election    string
	Algorithm   election.Algorithm // its name and kinds of message alone
	Observer    bool
	Incarnation uint64
	Advertise   string   // HOST:PORT
	Join        []string // HOST:PORT of members to join through
	Timing      election.Timing
	Log         *slog.Logger // anywhere
	Counters    *Counters    // anywhere

	Emit        func(election.Event)                                // has the Machine stepped, soon
	Admit       func(peer election.Rank, incarnation uint64) error  // one that dials us: see [machine.Machine.Admit]
	AdmitAnswer func(peer election.Rank, incarnation uint64) error  // one that answers our dial: see [machine.Machine.AdmitAnswer]
	AdmitJoin   func(e election.Member, incarnation uint64) error   // see [machine.Machine.AdmitJoin]
	Enter       func(e election.Member, holds election.Token) Entry // puts a newcomer on the list
	Attest      func(secret []byte) (ends bool)                     // a guard's secret: whether it ends a leadership that is, or was just, followed; nil: none does
	SameID      func(holder string, by election.ID)                 // another process, there, has this member's id, as a member says

	Rank    func() election.Rank                                 // this member's, by now
	Check   func(m *election.Message) error                      // anywhere: refuses what no honest member would send
	Entry   func(id election.ID) (e election.Member, known bool) // see [machine.Machine.Entry]
	View    func() election.Token                                // see [machine.Machine.View]
	Held    func() election.Token                                // see [machine.Machine.Held]
	Highest func() uint64                                        // see [machine.Machine.Highest]
}

// Entry is what a newcomer is told when it is put on the list.
type Entry struct {
	List  []election.Member
	Token election.Token // the leadership that this member follows
	Age   time.Duration  // how long ago it heard that leader
}
