// Package peeragent is what stands around a node of an overlay of super peers in a process
// of its own: its HTTP API, events, metrics, hooks and the map.
package peeragent
