package quorum

import (
	"strings"
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

// A cluster grows from member 1, and the disk of 1 is emptied. As 1 names no other member, it creates a second
// cluster; it ends once a member of the first has reached it.
func TestTheFirstMemberEndsIfItsDiskIsEmptied(t *testing.T) {
	n := newNetwork(t, "1")
	n.run(time.Second)
	for _, id := range ids("2,3") {
		n.join(id, "1")
		n.run(time.Second)
	}
	n.run(3 * time.Second)
	if n.leader(); len(n.cores["1"].Voters()[0]) != 3 {
		t.Fatalf("the voters are %v, want three", n.cores["1"].Voters())
	}
	config := configured("1", ids("1"), nil)
	config.Seed = 8
	core, err := New().NewCore(config)
	if err != nil {
		t.Fatal(err)
	}
	n.cores["1"] = core.(*Core)
	n.step("1", election.Event{Kind: election.Started})
	n.settle()
	n.run(20 * time.Millisecond)
	if !n.cores["1"].leads() {
		t.Fatal("1 does not lead its own cluster")
	}
	if err := n.cores["1"].Admit(n.now, election.Rank{ID: "2"}, 1); err != nil {
		t.Fatalf("1 refuses 2: %v", err)
	}
	for _, at := range [][2]election.ID{{"1", "2"}, {"2", "1"}} {
		n.step(at[0], election.Event{Kind: election.LinkDown, Peer: at[1]})
		n.step(at[0], election.Event{Kind: election.LinkUp, Rank: election.Rank{ID: at[1]}, Incarnation: 2})
	}
	n.settle()
	if err := n.halted["1"]; err == nil || !strings.Contains(err.Error(), "by another disk") {
		t.Errorf("1 ends with %v, want that 2 knows another disk", err)
	}
	n.run(3 * time.Second)
	for _, id := range ids("2,3") {
		if n.halted[id] != nil || !n.cores[id].View().Defined() || n.cores[id].View().Leader.ID == "1" {
			t.Errorf("%s follows %v, and ended with %v", id, n.cores[id].View(), n.halted[id])
		}
	}
}

// join starts a member that joins through another.
func (n *network) join(id, via election.ID) {
	config := configured(id, nil, nil)
	config.Joins = true
	core, err := New().NewCore(config)
	if err != nil {
		n.t.Fatal(err)
	}
	n.ids, n.cores[id] = append(n.ids, id), core.(*Core)
	n.step(id, election.Event{Kind: election.Started})
	own, _ := n.cores[id].Entry(id)
	n.step(via, election.Event{Kind: election.JoinRequested, Member: own})
	n.step(id, election.Event{Kind: election.JoinAccepted, List: n.cores[via].List()})
	n.settle()
}
