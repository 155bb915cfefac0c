// Package superpeer makes a process a node of an overlay in which some nodes are elected to serve
// the rest. It drives the rules of internal/superpeer on real machines.
//
//	m, err := superpeer.Join(ctx, superpeer.Config{
//		Join: []string{"10.0.0.1:7600"}, Fraction: 0.02, Capacity: 100, Secret: "/etc/batuta/secret",
//	})
//	...
//	for ev := range m.Watch(ctx) { … } // became a super peer, home changed, a client came
//
// Membership, failure detection and gossip use github.com/hashicorp/memberlist (SWIM); coordinates
// use Vivaldi. One goroutine owns the node's state machine. It supplies messages, measured round
// trips, clock rounds and randomness.
//
// A super peer never serves more than Capacity nodes besides itself. Once churn stops, exactly
// ⌈ρ·n⌉ super peers live and every node has one. During a partition each side has its own
// super peers; when it ends the older of two holders of a token gives it up.
//
// Every node has the list of all nodes, unless Config.Membership is core: then only super peers
// list each other. docs/superpeers-operation.md gives the limits of each.
package superpeer
