// Package quorum elects at most a single leader at any time.
//
// # The promise
//
// At every instant at most one member's leadership is in force. A group without a majority has no
// leader. An epoch belongs to one leadership permanently, and every later leadership has a higher
// epoch. Crashes, freezes, partitions, power loss and full disks do not break this, as long as
// disks keep what was written.
//
// It rests on one assumption: no two members' clocks differ in rate by more than [Drift], one
// hundredth by default. The time that the clocks show does not matter.
//
// # How
//
// The package is a core of its own behind the contract of [machine.Core], on the RawNode of
// go.etcd.io/raft: raft decides which member may lead and which processes are members. A raft
// leader does not lead yet. Its leadership is in force while its lease is. The lease begins when it
// sent a round of heartbeats that a majority has acknowledged (of both configurations, while the
// members change). It lasts for T less the drift and a margin. A member neither grants a vote nor
// asks for votes until T after it last received a heartbeat. After its own start it waits for as
// long as a promise of its previous process may last: T, or the earlier T if that was longer. That
// duration is on disk before the member promises anything. A lease that has ended is over: raft
// steps down, and a new leadership has a new term, which is the epoch.
//
// No message is sent before its content is on disk: a node needs a data directory. A raft number
// belongs to a single disk. A member whose disk was emptied joins as a new member, after the old
// entry was removed.
//
//	node, err := batuta.Start(ctx, batuta.Config{
//		ID: "1", DataDir: "/var/lib/service", Algorithm: quorum.New(),
//		Peers: []batuta.Peer{{ID: "1", Addr: "10.0.0.1:7400"}, {ID: "2", Addr: "10.0.0.2:7400"}, {ID: "3", Addr: "10.0.0.3:7400"}},
//	})
package quorum
