// Package batuta elects a leader among processes, with no service to operate
// beside them. Import it into a service, or run the batuta command next to your program.
//
// # What is promised
//
//	algorithm                   promise
//	bully, ring, chang-roberts  best effort: once faults stop, every group of members of
//	                            which each two reach each other, directly or through a third,
//	                            agrees in bounded time on one leader, the highest rank that
//	                            is a candidate (or the leader that there is, with Config.NoPreempt).
//	                            While a partition lasts each side has its
//	                            own leader. Status.Guarantee is "best-effort", Fencing false
//	quorum                      one leader: at each instant at most one leadership is in force, on
//	                            the assumption that no two clocks differ in rate by more than 1 %;
//	                            without a majority there is none. Status.Guarantee is
//	                            "one-leader", Fencing true
//
// Of the best-effort algorithms in particular: two members may lead at the same time while they cannot reach
// each other, and for at most T after a leader has died or stopped: T is
// 2·TMax + TProcess of [Config], 600 ms by default. Do not guard with it what two leaders at once would
// destroy. Two sides of a partition may count the same epoch: compare the token
// (epoch, leader), by [Token.Compare], never the epoch alone; and only under quorum
// is the token a fence, for what refuses a lower one.
//
// What does hold always, for every member: its views come in order and none is
// skipped; the token (epoch, leader) never goes down while the process runs, nor
// across an intact state file; a process that was stopped for longer than T knows,
// when it wakes, that it does not lead any more before it does anything else. That
// counts the time in which the whole machine was suspended (Linux; elsewhere as below).
// A virtual machine that was paused cannot see it but by its wall clock, once that is
// set right: a jump ahead by more than T counts as a stall. So a wall
// clock that is set ahead by hand costs a leader its leadership; a clock that is set back, or
// ahead by less, changes nothing.
//
// # How to use it
//
// [Start] a [Node] in every process, with one list of members and an algorithm: of packages
// election/bully and election/ring, or of package quorum.
//
//	node, err := batuta.Start(ctx, batuta.Config{
//		ID:        "1",
//		Listen:    "10.0.0.1:7400",
//		Algorithm: bully.New(),
//		DataDir:   "/var/lib/service",
//		Peers: []batuta.Peer{
//			{ID: "1", Addr: "10.0.0.1:7400"},
//			{ID: "2", Addr: "10.0.0.2:7400"},
//			{ID: "3", Addr: "10.0.0.3:7400"},
//		},
//	})
//
// Or give [Config].Join in place of Peers, and the cluster grows from one member. Addresses that
// other machines reach need [Config].Security.
//
// [Node.Lead] runs a function wherever the leader is, once per leadership, and
// stops it when leadership is lost. [Node.Hold] counts a request into a leadership. [Node.Watch] yields each change of leader;
// [Node.Leader] and [Node.IsLeader] return the present state. [Node.Events] yields all changes, the states
// of members too, and [Node.Status] all that is known now. [Node.Resign] steps down,
// [Node.Transfer] to a member, [Node.Campaign] calls an election, and
// [Node.Shutdown] hands over and ends. [New] makes a node that [Node.Run] runs until its context
// ends, for an errgroup or a supervisor.
//
// [Node.Election] returns a named election of the same cluster, with a leader of its own. The leader
// of the cluster coordinates these elections: it distributes them over their candidates.
// [Node.Elections] watches them all.
//
// Package batutatest runs a cluster within a test; batutahttp and batutaprom give a service the
// HTTP API and the metrics of an agent. With batutaguard the leader of a quorum is replaced within
// milliseconds of its end.
//
// Without a DataDir or a Store a member forgets its epoch when its process ends.
// It then asks those it can reach, so that only a cluster that stops as a whole
// starts to count again.
//
// A process that crashes is seen at once, because its connections end; a process that
// freezes, or a network that goes silent, after T. The kernel frees the memory of
// a killed process before it closes its connections: a large service is seen dead
// later than a small agent next to it. Shut the Node down wherever there is time to.
package batuta

import "github.com/batuta-dev/batuta/election"

// Peer is a member as a person names it: in [Config] and to [Node.AddMember].
type Peer struct {
	ID       ID     // a number, an IP address, a UUID or a name; see [election.ParseID]
	Addr     string // HOST:PORT where it listens
	Priority int    // ranks before the id, until the member publishes its own; default 0
}

// ID names a member. Ids of one kind (numbers, IP addresses, UUIDs, names) have an
// order, and all ids of a cluster are of one kind: the member with the highest leads,
// of those with the highest priority.
type ID = election.ID

// Rank is what members are elected by: the priority, then the id.
type Rank = election.Rank

// Token names a leadership: the leader, and its epoch. Tokens rise from one
// leadership to the next; [Token.String] is EPOCH:ID.
type Token = election.Token

// Algorithm is how members elect. Packages election/bully, election/ring and
// quorum have them; package election documents how to write an algorithm.
type Algorithm = election.Algorithm

// Record is a thing that a member did, and why; see [Node.Trace].
type Record = election.Record

// Cause is why a leadership has ended.
type Cause = election.Cause

// Causes.
const (
	CauseCrashed    = election.CauseCrashed    // the leader's process is gone
	CauseSilent     = election.CauseSilent     // nothing was received from it, or it did not acknowledge, for T
	CauseResigned   = election.CauseResigned   // it stepped down or handed over
	CauseRemoved    = election.CauseRemoved    // it is no member any more
	CauseStalled    = election.CauseStalled    // its process was stopped for longer than T
	CauseSuperseded = election.CauseSuperseded // a higher token is known
	CauseStopped    = election.CauseStopped    // this member is closing
)

// MemberState is what a member is known to be.
type MemberState = election.MemberState

// States of a member.
const (
	StateUnknown     = election.StateUnknown     // nothing is known yet
	StateUp          = election.StateUp          // received from within T
	StateUnreachable = election.StateUnreachable // silent for T; may live
	StateDown        = election.StateDown        // its process is gone
	StateAdded       = election.StateAdded       // has come onto the list
	StateRemoved     = election.StateRemoved     // has left the list
)
