package batuta

import (
	"context"
	"fmt"
	"iter"
	"time"
)

// View is who leads, as one member sees it.
type View struct {
	Election string
	Token    Token     // zero: undefined
	Address  string    // of the leader, HOST:PORT
	Since    time.Time // when this view began
	Lost     Token     // while undefined: the leadership that ended; zero at first
	Cause    Cause     // while undefined: why it ended
}

// Defined reports whether the view names a leader.
func (v View) Defined() bool { return v.Token.Defined() }

// EventKind says what an [Event] tells.
type EventKind string

// Kinds of Event.
const (
	EventLeader EventKind = "leader" // View names a leader
	EventLost   EventKind = "lost"   // View.Lost has ended by View.Cause
	EventMember EventKind = "member" // Member's State has changed
)

// Event is one change that a member has seen.
type Event struct {
	Time    time.Time
	Kind    EventKind
	View    View        // the view after the event
	Member  ID          // EventMember
	State   MemberState // EventMember
	Address string      // EventMember: HOST:PORT
}

// Leadership is one time of leading.
type Leadership struct {
	Election string
	Token    Token // its Epoch rises from one leadership to the next
	Since    time.Time
}

// LostError is why the context that [Node.Lead] gives was cancelled.
type LostError struct {
	Token Token
	Cause Cause
}

// Error says which leadership ended and why.
func (e *LostError) Error() string {
	return fmt.Sprintf("leadership %s lost: %s", e.Token, e.Cause)
}

// Watch yields this member's views in order, none skipped, the current one
// first, until ctx or the node ends.
func (n *Node) Watch(ctx context.Context) iter.Seq[View] { return func(func(View) bool) {} }

// Events yields everything this member sees, in order, none skipped. The current
// view comes first: as a leader event, or as the lost event that led to it, or
// not at all when no leader was ever known. It ends with ctx or the node.
func (n *Node) Events(ctx context.Context) iter.Seq[Event] { return func(func(Event) bool) {} }

// Lead runs fn once per leadership of this member, with a context that is
// cancelled on loss; its [context.Cause] is then a *[LostError]. The lead is
// given away, and the next one begun, only after fn has returned. When fn returns
// while still leading, Lead resigns and returns fn's error. When ctx ends,
// Lead waits for fn, resigns if still leading, and returns ctx's error.
func (n *Node) Lead(ctx context.Context, fn func(ctx context.Context, l Leadership) error) error {
	return nil
}
