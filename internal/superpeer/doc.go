// Package superpeer elects some of many nodes to serve the rest. Every node gets a super peer near
// it, super peers are spread evenly, their share of all nodes is the configured share, and none
// serves more than a fixed number (docs/sources.md, "Coordinator", elections in large systems).
//
// It has both methods of that source. A reserved prefix of a DHT's identifier space maps each range
// to a node (prefix.go). N tokens in a geometric space move away from each other until they are
// spread out (textbook.go); the refined protocol, which is the default, moves them to where they
// serve best by measured round trips (tokens.go).
//
// A [Node] is the state of a single process: pure, without clock, socket, goroutine, lock or
// randomness of its own. It receives messages, measured round trips and announcements, and answers
// with [Actions]. It knows a handful of super peers and its own clients, never the whole. The same
// Node runs in the laboratory (package lab), and on real processes in the public package superpeer.
//
// A node never serves more than Capacity clients, and a token's version fences its older holders.
// Once churn stops, exactly ⌈ρ·n⌉ tokens live and every node is served.
package superpeer
