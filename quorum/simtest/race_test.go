//go:build race

package simtest_test

// raced: the race detector slows everything down tenfold.
const raced = true
