// Package peeragent is the agent of a node of a super peer overlay: its HTTP API, events, metrics,
// hooks and the map.
package peeragent
