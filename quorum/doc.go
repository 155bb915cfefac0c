// Package quorum elects one leader, never two.
//
// # The promise
//
// At every instant at most one member's leadership is in force. A group without a
// majority has no leader. An epoch belongs to one leadership for ever, and a later one
// has a higher epoch, whatever crashes, freezes, parts, loses its power or fills up, as
// long as disks keep what was written.
//
// It rests on one assumption: no two members' clocks differ in rate by more than
// [Drift], one hundredth by default. What clocks show does not matter.
//
// # How
//
// The package is a core of its own behind the contract of [machine.Core], on the RawNode
// of go.etcd.io/raft: raft decides who may lead and who belongs. Being raft's leader is
// not leading yet. A leadership is in force while its lease is: from when a round of
// beats was sent that a majority (of both configurations, while one changes) has
// acknowledged, for T less the drift and a margin. A member grants no vote and asks for
// none until T after it last received a beat. After its own start it waits for as long as
// a promise of its former self may last, which is on disk before it promises anything: T,
// or the T of before if that was longer. A lease that has ended is over: raft
// steps down, and a new leadership has a new term, which is the epoch.
//
// Nothing is said before it is on disk: a node needs a data directory. A number in raft
// belongs to one disk: a member whose disk was emptied comes back as another, after the
// old one was removed.
//
//	node, err := batuta.Start(ctx, batuta.Config{
//		ID: "1", DataDir: "/var/lib/service", Algorithm: quorum.New(),
//		Peers: []batuta.Peer{{ID: "1", Addr: "10.0.0.1:7400"}, {ID: "2", Addr: "10.0.0.2:7400"}, {ID: "3", Addr: "10.0.0.3:7400"}},
//	})
package quorum
