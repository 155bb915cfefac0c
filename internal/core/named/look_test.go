package named

import (
	"maps"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// A frame of named elections shows the core of its receiver that the sender's link works.
func TestAFrameIsReceivedFromItsSender(t *testing.T) {
	c := newLedCluster(t, 2, "2", 1)
	for id, sender := range map[election.ID]election.ID{"1": "2", "2": "1"} {
		if got := c.members[id].received; got != sender {
			t.Errorf("the core of %s has received frames of %q, want %s", id, got, sender)
		}
	}
}

// A member that receives from no coordinator shows the others' leaderships for as long as one
// lasts, and no leader after that, until a coordinator reports which there are.
func TestWithoutACoordinatorNobodyIsShown(t *testing.T) {
	c := newLedCluster(t, 3, "3", 6)
	m := c.members["1"]
	shown := func() (n int) {
		for _, token := range m.seen {
			if token.Defined() {
				n++
			}
		}
		return n
	}
	before := maps.Clone(m.seen)
	for _, id := range []election.ID{"2", "3"} {
		c.cut[[2]election.ID{"1", id}], c.cut[[2]election.ID{id, "1"}] = true, true
	}
	c.run(600 * time.Millisecond)
	m.view = election.Token{}
	m.step(election.Event{Kind: election.Woke})
	if n := shown(); n != 6 {
		t.Errorf("%d names are shown led while a new coordinator may come", n)
	}
	c.run(m.c.wait)
	if n := shown(); n != 0 {
		t.Errorf("%d names are shown led for as long as nobody coordinates", n)
	}
	c.run(3 * time.Second)
	clear(c.cut)
	c.lead(1, "3", "1")
	c.run(2 * time.Second)
	if shares := c.shares(6); !even(shares) {
		t.Errorf("shares %v", shares)
	}
	for k, was := range before {
		if was.Leader.ID == "1" && m.seen[k] == was {
			t.Errorf("%s is led again as %v, which has ended", k.name, was)
		}
	}
}

// What a step with many names has changed, and sent, is garbage a step later. An idle member would keep a tenth of its
// memory for it.
func TestAStepOfManyNamesLeavesNoRoomBehind(t *testing.T) {
	c := newLedCluster(t, 3, "3", 500)
	c.crash("3")
	c.lead(2, "2", "1")
	c.run(time.Second)
	for _, id := range []election.ID{"1", "2"} {
		if m := c.members[id].c; cap(m.changes) > 64 || cap(m.out) > 64 {
			t.Errorf("%s keeps room for %d changes and %d actions", id, cap(m.changes), cap(m.out))
		}
	}
	if shares := c.shares(500); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}

// A leader of many members sends each a heartbeat in a single step, ten times a second. Room for that is not made
// each time.
func TestABeatToManyMembersMakesNoRoom(t *testing.T) {
	c := newCluster(t, 100)
	c.leadAll(1, "1")
	c.run(time.Second)
	m := c.members["1"]
	step := func(of interface {
		Step(time.Time, election.Event) []election.Action
	}) float64 {
		return testing.AllocsPerRun(10, func() {
			m.nextBeat = c.now
			of.Step(c.now, election.Event{Kind: election.Woke})
			of.Step(c.now, election.Event{Kind: election.Woke})
		})
	}
	if own, all := step(m), step(m.c); all > own+4 {
		t.Errorf("a beat to 99 members takes %v allocations, and its own core's takes %v", all, own)
	}
}
