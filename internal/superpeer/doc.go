// Package superpeer elects some of many nodes to serve the rest, so that every
// node has a super peer near it, super peers are spread evenly, their share of
// all nodes is the one asked for, and none serves more than a fixed number
// (docs/sources.md, "Coordinator", elections in large systems).
//
// Both of the source's ways are here. A reserved prefix of a DHT's identifier
// space says which node each range belongs to (prefix.go). N tokens in a
// geometric space move away from each other until they are spread out
// (textbook.go); the refined protocol, which is the default, moves them to
// where the round trips they measured say they serve best (tokens.go).
//
// A [Node] is one process's part in it: pure, without clock, socket, goroutine,
// lock or randomness of its own. It is given messages, measured round trips and
// what gossip has brought, and answers with [Actions]. It knows a handful of
// super peers and its own clients, never the whole. The same Node runs in the
// laboratory (package lab), and on real processes in the public package superpeer.
//
// What is held for certain: a node never serves more than Capacity others, and
// a token's version fences its older holders. What is only reached once churn
// stops: that exactly ⌈ρ·n⌉ tokens live and that every node is served.
package superpeer
