package sim_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// thousand members, and how many messages they may need to replace a leader.
const (
	thousand = 1000
	linear   = 8 * thousand
)

// 1,000 members, all notice in one instant that their leader is gone: O(n) messages.
func TestThousandMembers(t *testing.T) {
	var all []election.ID
	for i := 1; i < thousand; i++ {
		all = append(all, election.ID(strconv.Itoa(i)))
	}
	r, err := sim.Count(maker, sim.CountConfig{Algorithm: "bully", Option: "descending", Nodes: thousand, Start: all, Crashed: ids(thousand)})
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, count := range r.Messages {
		total += count
	}
	if total > linear {
		t.Errorf("%d messages among %d members: %v", total, thousand, r.Messages)
	}
	if r.Leader != "999" {
		t.Errorf("%s leads, want 999", r.Leader)
	}
}

// The same with the detector, disks and connections: what a crash of the leader
// costs a real cluster.
func TestThousandMembersDetectACrash(t *testing.T) {
	s := &scenario.Scenario{Setup: scenario.Setup{Algorithm: "bully", Option: "descending", Settled: true}}
	for i := range thousand {
		s.Setup.Members = append(s.Setup.Members, election.Rank{ID: election.ID(strconv.Itoa(i + 1))})
	}
	s.Steps = []scenario.Step{
		{Do: scenario.Run, For: 300 * time.Millisecond},
		{Do: scenario.Mark},
		{Do: scenario.Crash, Members: []election.ID{"1000"}},
		{Do: scenario.Run, For: 700 * time.Millisecond},
		{Do: scenario.Expect, Expect: scenario.Expectation{What: "leader", Of: "999"}},
		{Do: scenario.Expect, Expect: scenario.Expectation{What: "messages", Of: string(election.Election), Op: "<=", N: 2 * thousand}},
	}
	began := time.Now()
	o, err := sim.Play(s, maker, nil)
	if err != nil {
		t.Fatal(err)
	}
	delete(o.Messages, election.Beat) // what leading costs at any time
	delete(o.Messages, election.Ack)
	total := 0
	for _, count := range o.Messages {
		total += count
	}
	t.Logf("%v in %v", o.Messages, time.Since(began).Round(time.Millisecond))
	if total > linear || total < thousand {
		t.Errorf("%d messages among %d members: %v", total, thousand, o.Messages)
	}
}

// Members that start together ask each other what epoch there has been. Not all of
// a large cluster ask all of it: a member that has received from a higher candidate leaves the
// rest to that.
func TestACrowdAtBirthAsksAFew(t *testing.T) {
	const n, wave = 200, 32
	s := &scenario.Scenario{Setup: scenario.Setup{Algorithm: "bully", Option: "descending"}}
	for i := range n {
		s.Setup.Members = append(s.Setup.Members, election.Rank{ID: election.ID(strconv.Itoa(i + 1))})
	}
	s.Steps = []scenario.Step{
		{Do: scenario.Run, For: 3 * time.Second},
		{Do: scenario.Expect, Expect: scenario.Expectation{What: "leader", Of: strconv.Itoa(n)}},
		{Do: scenario.Expect, Expect: scenario.Expectation{What: "messages", Of: string(election.Probe), Op: "<=", N: (n-1)*wave + n - 1}},
	}
	o, err := sim.Play(s, maker, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%v", o.Messages)
}
