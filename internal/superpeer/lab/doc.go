// Package lab runs the super-peer protocols at scale: the shipped [superpeer.Node], for each of up
// to two million simulated processes, in a space with known round trips, with delayed gossip,
// capacity and churn. It measures the four requirements on true round trips, which no node knows.
// Its tests compare the result with choices made with full knowledge.
//
// A run is a function of its [Options]: the same options produce the same [Report], except its
// seconds, on any number of CPUs.
package lab
