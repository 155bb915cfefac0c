package quorum

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// A leader waits between two changes. A request of a user that waits there is not lost when the
// member that it is about starts again, and asks to be admitted with its number.
func TestARequestThatWaitsOutlastsARejoin(t *testing.T) {
	for name, ask := range map[string]election.Event{
		"priority": {Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "1", Priority: 20}}, On: true},
		"removal":  {Kind: election.MemberRemoved, Peer: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, "1", "2", "3")
			n.run(3 * time.Second)
			leader := n.leader()
			c := n.cores[leader]
			if leader == "1" {
				t.Fatal("member 1 leads")
			}
			c.proposed = n.now // it has just changed something
			n.step(leader, ask)
			s := c.roster.of("1")
			n.step(leader, election.Event{Kind: election.JoinRequested, Member: election.Member{Rank: election.Rank{ID: "1"}, Number: s.Number, Address: s.Address, Disk: c.diskOf(s.Number)}})
			n.settle()
			n.run(3 * time.Second)
			switch s = c.roster.of("1"); {
			case name == "removal" && s != nil:
				t.Error("it is a member still")
			case name == "priority" && (s == nil || s.Priority != 20):
				t.Errorf("it ranks by %+v", s)
			}
		})
	}
}

// Of two requests of users the later one holds, with what it leaves open as the earlier one has it.
func TestARequestThatWaitsIsCompleted(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	leader := n.leader()
	c := n.cores[leader]
	c.proposed = n.now
	for _, ask := range []election.Event{
		{Kind: election.MemberRemoved, Peer: "1"},
		{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "1", Priority: 10}, Address: "host-9:7400"}, On: true},
		{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "1", Priority: 20}}, On: true},
		{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "1"}, Address: "host-8:7400"}},
	} {
		n.step(leader, ask)
	}
	n.settle()
	n.run(time.Second)
	if s := c.roster.of("1"); s == nil || s.Priority != 20 || s.Address != "host-8:7400" {
		t.Errorf("it is listed as %+v", s)
	}
}

// A removal that has happened holds against no join: the user may start the member again at once.
func TestARemovalEndsWhenItHasHappened(t *testing.T) {
	for _, via := range []election.ID{"2", "3"} { // one of them leads
		t.Run(string(via), func(t *testing.T) {
			n := newNetwork(t, "1", "2", "3")
			n.run(3100 * time.Millisecond) // so that no member looks at its requests before the join
			leader := n.leader()
			n.step(via, election.Event{Kind: election.MemberRemoved, Peer: "1"})
			n.settle()
			n.run(160 * time.Millisecond)
			n.step(leader, election.Event{Kind: election.JoinRequested, Member: election.Member{Rank: election.Rank{ID: "1"}, Address: "host-1:7400", Disk: 99}})
			n.run(300 * time.Millisecond)
			if n.cores[leader].roster.of("1") == nil {
				t.Error("its request to join is lost")
			}
			n.run(3 * time.Second)
			if n.cores[leader].roster.of("1") == nil {
				t.Error("it is removed again")
			}
		})
	}
}
