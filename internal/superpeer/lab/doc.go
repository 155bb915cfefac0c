// Package lab runs the super-peer protocols at scale: the shipped
// [superpeer.Node], one for each of up to two million simulated processes, in a
// space with known round trips, with gossip that is late, capacity and churn.
// It measures what the four requirements ask on true round trips, which no node
// knows. Its tests compare the result with choices made with full knowledge.
//
// A run is a function of its [Options]: the same options give the same
// [Report] but for its seconds, on however many processors.
package lab
