package machine

import (
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Core is a member of an election as its driver sees it: the node of a service, and the lab. It is
// pure: no clock, goroutine, socket, file or lock, and not safe for concurrent use. [Machine] is a
// Core; an algorithm that cannot live inside it makes its own: see [CoreMaker].
type Core interface {
	// Step handles an event and returns what to do about it, in order. now never runs backwards.
	// The slice is valid until the next Step.
	Step(now time.Time, ev election.Event) []election.Action
	// Deadline is when to step it next, with a Woke event, if nothing happens before.
	// It is false when nothing is due.
	Deadline() (time.Time, bool)

	Self() election.Rank            // this member, as it ranks now
	Standing() election.Eligibility // why it does not stand for election; [election.Eligible] when it does
	View() election.Token           // the leadership that holds for it; zero: none
	Held() election.Token           // the highest leadership that it has on disk
	Highest() uint64                // the highest epoch that it has seen anywhere

	Members() []MemberView                        // all members as this member sees them, lowest rank first
	List() []election.Member                      // the list of members, tombstones included; not to be changed
	Entry(id election.ID) (election.Member, bool) // id's place on that list
	Knows(id election.ID) bool                    // whether id is a member now
	Fits(e election.Member) bool                  // whether the list has room for e
	Vouch() (election.Token, time.Duration)       // the leadership that holds for it, and how long ago it received that leader

	AdmitTransfer(to election.ID) error // whether this member may now hand the lead over to that member, by [election.Transfer]

	Admit(now time.Time, peer election.Rank, incarnation uint64) error       // whether a peer that dials this member may
	AdmitAnswer(now time.Time, peer election.Rank, incarnation uint64) error // whether a peer that answers its dial may
	AdmitJoin(now time.Time, e election.Member, incarnation uint64) error    // whether a newcomer may join through it
}

// CoreMaker is an [election.Algorithm] with a Core of its own, if it keeps its epochs, its members
// or its disk differently from a Machine. Its Step is never called.
type CoreMaker interface {
	election.Algorithm
	NewCore(c Config) (Core, error)
}

// NewCore checks c and gives the Core that goes with its Algorithm, a [Machine] unless
// it makes its own. It waits for its Started event.
func NewCore(c Config) (Core, error) {
	if own, ok := c.Algorithm.(CoreMaker); ok {
		return own.NewCore(c)
	}
	m, err := New(c)
	if err != nil {
		return nil, err
	}
	return m, nil
}

var _ Core = (*Machine)(nil)
