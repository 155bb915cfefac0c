// Package network is the interface between a node and its connections. Batuta's own wire implements
// it, and so does the boss wire.
package network

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
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

// Counters count received and refused traffic. The zero value is ready; the methods may be called
// from any goroutine.
type Counters struct {
	sent atomic.Uint64 // bytes

	mu       sync.Mutex
	received map[string]uint64 // messages, by kind
	refused  map[string]uint64 // connections, by reason
	bad      map[string]uint64 // frames, by reason
}

// Sent counts bytes that are written to a peer.
func (c *Counters) Sent(bytes int) { c.sent.Add(uint64(bytes)) }

// SentBytes returns the number of bytes sent.
func (c *Counters) SentBytes() uint64 { return c.sent.Load() }

// Received counts a message.
func (c *Counters) Received(kind election.MessageKind) { c.count(&c.received, string(kind)) }

// Refused counts a connection that one of its ends refused.
func (c *Counters) Refused(reason string) { c.count(&c.refused, reason) }

// Bad counts a frame that was dropped.
func (c *Counters) Bad(reason string) { c.count(&c.bad, reason) }

func (c *Counters) count(counts *map[string]uint64, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if *counts == nil {
		*counts = map[string]uint64{}
	}
	(*counts)[name]++
}

// Counts returns copies of the counts; none is nil.
func (c *Counters) Counts() (received, refused, bad map[string]uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clone := func(counts map[string]uint64) map[string]uint64 {
		if counts == nil {
			return map[string]uint64{}
		}
		return maps.Clone(counts)
	}
	return clone(c.received), clone(c.refused), clone(c.bad)
}

// Turn is the right to use what a node's loop owns. A goroutine receives from it to have the turn, and
// sends to give it back: the loop, or a goroutine that has read a message and need not wake the loop.
type Turn chan struct{}

// waiting is how many goroutines of an Inbox may wait for a turn at the same time. The loop waits for
// no more turns than that, whatever arrives.
const waiting = 64

// Inbox does what arrives in a turn of the node.
type Inbox struct {
	turn   Turn
	slots  chan struct{}
	settle func()
	over   <-chan struct{}
	drops  bool
}

// NewInbox makes an Inbox that accepts nothing more once over is closed.
func NewInbox(s Site, over <-chan struct{}) Inbox {
	return Inbox{turn: s.Turn, slots: make(chan struct{}, waiting), settle: s.Settle, over: over}
}

// Post calls f in a turn, with all that comes of it; it returns false once the node is over. It must
// not be called in a turn.
func (i *Inbox) Post(f func()) (posted bool) {
	select {
	case i.slots <- struct{}{}:
		defer func() { <-i.slots }()
	case <-i.over:
		return false
	}
	select {
	case <-i.turn:
		if !i.drops {
			f()
			i.settle()
		}
		i.turn <- struct{}{}
		return true
	case <-i.over:
		return false
	}
}

// Await gives this turn to what arrives, until done is closed.
func (i *Inbox) Await(done <-chan struct{}) {
	i.turn <- struct{}{}
	<-done
	<-i.turn
}

// Discard drops what is posted until done is closed.
func (i *Inbox) Discard(done <-chan struct{}) {
	i.drops = true
	i.Await(done)
}
