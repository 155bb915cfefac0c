// Package states is the report of a leader about the members' states. A heartbeat carries it to a
// follower until that follower acknowledges its version. It is a part of both cores, and pure.
package states

import "github.com/batuta-dev/batuta/election"

// Report is what a leader reports. The zero value has version 0, the version of a follower that has
// received no report. A copy is independent.
type Report struct {
	version uint64
	made    uint64                  // the version of states
	states  []election.MemberReport // never changed in place
}

// Changed records that the present report is out of date.
func (r *Report) Changed() { r.version++ }

// Version returns the version of the present report.
func (r *Report) Version() uint64 { return r.version }

// States returns the present report. It calls list once for each version that is asked for.
func (r *Report) States(list func() []election.MemberReport) []election.MemberReport {
	if r.made != r.version || r.states == nil {
		r.states, r.made = list(), r.version
	}
	return r.states
}
