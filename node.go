package batuta

import (
	"context"
	"errors"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Names of package election that users of this package need.
type (
	ID          = election.ID
	Rank        = election.Rank
	Token       = election.Token
	Member      = election.Member
	MemberState = election.MemberState
	Cause       = election.Cause
	Record      = election.Record
	Algorithm   = election.Algorithm
)

// Node is one running member of an election. Its methods may be called from any
// goroutine.
type Node struct{}

// Start begins taking part. It returns once the node listens and its state is
// loaded; a leader may not be known yet. When ctx ends the node closes as by
// [Node.Close]. Its errors wrap [ErrConfig] when only the user can mend them.
func Start(ctx context.Context, c Config) (*Node, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return nil, errors.New("not built yet")
}

// ID is this member's id.
func (n *Node) ID() ID { return "" }

// Addr is the listen address as bound, HOST:PORT.
func (n *Node) Addr() string { return "" }

// Leader is this member's current view.
func (n *Node) Leader() View { return View{} }

// IsLeader reports whether this member leads right now. It compares clocks: after
// the process has been stopped for longer than T it is false at once.
func (n *Node) IsLeader() bool { return false }

// Status is a snapshot of everything this member knows.
func (n *Node) Status() Status { return Status{} }

// Resign steps down and lets the others elect; no effect when not leading. It
// returns when the leadership has ended here, or with ctx's error.
func (n *Node) Resign(ctx context.Context) error { return nil }

// Campaign starts an election. It returns when the contest has begun.
func (n *Node) Campaign(ctx context.Context) error { return nil }

// Close hands over, if this member leads, and stops. It returns when every
// goroutine has ended and the port is free. Closing again does nothing.
func (n *Node) Close() error { return nil }

// Trace gives the last records of what the Machine did and why, oldest first:
// at most 512.
func (n *Node) Trace() []Record { return nil }

// Done is closed when the node has ended, by Close or by itself.
func (n *Node) Done() <-chan struct{} { return nil }

// Err says why the node ended by itself; nil while it runs or after Close.
func (n *Node) Err() error { return nil }

// Role is what part a member plays.
type Role string

// Roles.
const (
	RoleLeader    Role = "leader"
	RoleFollower  Role = "follower"
	RoleCandidate Role = "candidate" // in a contest
	RoleUndefined Role = "undefined" // knows no leader
)

// Status is what a member knows at one moment.
type Status struct {
	ID        ID
	Cluster   string
	Election  string
	Algorithm string
	Guarantee string // "best-effort" or "one-leader"
	Fencing   bool   // whether the epoch is safe to fence with

	Role          Role
	Leader        ID     // none while undefined
	LeaderAddress string // HOST:PORT, empty while undefined
	Epoch         uint64 // of Token, or the highest known while undefined
	Token         Token  // zero while undefined
	Since         time.Time
	Members       []MemberStatus // lowest rank first, this one included

	Incarnation uint64
	Uptime      time.Duration
	Listen      string // as bound
	Advertise   string // as told to the others

	Sent     map[string]uint64 // messages by kind
	Received map[string]uint64 // messages by kind
	Lost     map[Cause]uint64  // leaderships ended, by cause
	Refused  map[string]uint64 // handshakes refused, by reason
	Bad      map[string]uint64 // frames dropped, by reason
	Links    int               // connections that stand
}

// MemberStatus is what is known of one member. Its state is as the leader tells it.
type MemberStatus struct {
	ID       ID
	Address  string
	Priority int
	State    MemberState
	Epoch    uint64    // of the token it last acknowledged
	LastSeen time.Time // when this member last heard it; zero: never
}
