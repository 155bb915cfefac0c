// Package superpeer makes a process one of many nodes of which some are elected to serve
// the rest. It drives the rules of internal/superpeer on real machines.
//
//	m, err := superpeer.Join(ctx, superpeer.Config{
//		Join: []string{"10.0.0.1:7600"}, Fraction: 0.02, Capacity: 100, Secret: "/etc/batuta/secret",
//	})
//	...
//	for ev := range m.Watch(ctx) { … } // became a super peer, home changed, a client came
//
// Membership, failure detection and gossip are those of github.com/hashicorp/memberlist
// (SWIM); coordinates are Vivaldi's. One goroutine owns the node's state machine. It gives it
// messages, measured round trips, rounds of the clock and randomness.
//
// What is held for certain: a super peer never serves more than Capacity others. What is
// only reached once churn stops: that exactly ⌈ρ·n⌉ super peers live and that every node
// has one. While a partition lasts each side has its own; when it heals the older of two
// holders of a token gives it up.
//
// Every node knows the list of all nodes, unless Config.Membership says that super peers alone know
// each other; docs/superpeers-membership.md and docs/superpeers-core.md give the limits of each.
package superpeer
