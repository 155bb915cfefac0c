//go:build race

package sim_test

// raced: the race detector slows everything down tenfold.
const raced = true
