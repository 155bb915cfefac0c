package sim_test

import (
	"strconv"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/sim"
)

// 1,000 members, all notice in one instant that their leader is gone: O(n) messages.
func TestThousandMembers(t *testing.T) {
	const n = 1000
	var all []election.ID
	for i := 1; i < n; i++ {
		all = append(all, election.ID(strconv.Itoa(i)))
	}
	r, err := sim.Count(maker, sim.CountConfig{Algorithm: "bully", Probe: "descending", Nodes: n, Start: all, Crashed: ids(n)})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, count := range r.Messages {
		total += count
	}
	if total > 8*n {
		t.Errorf("%d messages among %d members: %v", total, n, r.Messages)
	}
	if r.Leader != "999" {
		t.Errorf("%s leads, want 999", r.Leader)
	}
}
