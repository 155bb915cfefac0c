package election_test

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// Of any two connections both ends use the same, and of those that one end has dialed
// the newest.
func TestBothEndsUseTheSameConnection(t *testing.T) {
	const high, low election.ID = "10", "9"
	for _, dialedByLow := range []bool{true, false} {
		for _, otherByLow := range []bool{true, false} {
			atLow := election.Connection{Dialed: dialedByLow, Order: 1}.Over(election.Connection{Dialed: otherByLow, Order: 2}, low, high)
			atHigh := election.Connection{Dialed: !dialedByLow, Order: 1}.Over(election.Connection{Dialed: !otherByLow, Order: 2}, high, low)
			if atLow != atHigh {
				t.Errorf("dialed by %s: %v and %v: one end uses the first, the other the second", low, dialedByLow, otherByLow)
			}
			if dialedByLow == otherByLow && atLow {
				t.Errorf("both dialed by one end: the older is used")
			}
		}
	}
	if !(election.Connection{Dialed: true}).Over(election.Connection{Order: 5}, "10", "9") {
		t.Error("10 has dialed it, and uses the one that 9 has dialed")
	}
}
