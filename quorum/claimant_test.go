package quorum

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// A leader that resigns names its successor by number, in a field that holds nothing else.
func TestAResignationNamesTheClaimant(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	leader, named := n.leader(), map[uint64]int{}
	n.heard = func(m election.Message) {
		if m.Kind != election.Resign {
			return
		}
		if named[m.Claimant]++; m.Stamp != 0 {
			t.Errorf("the stamp of a resignation is %d", m.Stamp)
		}
	}
	n.step(leader, election.Event{Kind: election.Resigned})
	n.settle()
	n.run(3 * time.Second)
	if led := n.leader(); led == election.None || led == leader {
		t.Fatalf("%s leads after the resignation of %s", led, leader)
	}
	if want := n.cores[n.leader()].me.Number; len(named) != 1 || named[want] != 2 {
		t.Errorf("claimants named %v, want %d, twice", named, want)
	}
}
