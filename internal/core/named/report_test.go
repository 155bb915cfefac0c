package named

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// lateReport is a cluster of which 2 has just begun to coordinate. What 1 reports does not reach it until arrive;
// acknowledgements do.
func lateReport(t *testing.T, leased bool) (c *cluster, arrive func()) {
	c = newLedCluster(t, 3, "3", 12)
	for _, m := range c.members {
		if m.c.leased = leased; leased {
			m.c.hold = m.c.wait * 99 / 100
		}
	}
	c.moved()
	c.crash("3")
	lost := true
	c.loses = func(m *election.Message) bool {
		return lost && m.Kind == election.Named && m.From == "1"
	}
	c.lead(2, "2", "1")
	return c, func() { lost = false }
}

// A new coordinator that receives a member waits for its report of what it leads.
func TestALateReportInterruptsNobody(t *testing.T) {
	c, arrive := lateReport(t, false)
	one := c.members["1"]
	c.run(one.c.wait * 5 / 4)
	arrive()
	c.run(one.c.wait * 2)
	if one.moves != 2 || c.shares(12)["1"] != 6 {
		t.Errorf("1 has begun to lead %d names and leads %d, want the 4 of before and 2 of the 4 of the dead", one.moves, len(one.leads))
	}
}

// That wait has a bound: a member that never reports loses what it led, by its own time first.
func TestAReportThatNeverComesIsNotWaitedFor(t *testing.T) {
	for _, leased := range []bool{false, true} {
		c, _ := lateReport(t, leased)
		one, two := c.members["1"], c.members["2"]
		for began := c.now; len(two.leads) < 12; {
			if c.run(10 * time.Millisecond); c.now.Sub(began) > 4*one.c.wait {
				t.Fatalf("2 leads %d names %v after it began to coordinate", len(two.leads), c.now.Sub(began))
			}
			for name := range one.leads {
				if two.leads[name].Defined() {
					t.Fatalf("both lead %s after %v", name, c.now.Sub(began))
				}
			}
		}
	}
}

// A member that is frozen before it has reported is waited for no longer than one that was never received.
func TestAMemberThatStopsBeforeItsReportIsNotWaitedFor(t *testing.T) {
	c, _ := lateReport(t, false)
	two := c.members["2"]
	c.run(two.c.wait / 4)
	c.members["1"].dead = true // no connection ends: it is frozen
	began := c.now
	for len(two.leads) < 12 {
		if c.run(10 * time.Millisecond); c.now.Sub(began) > two.c.wait+two.c.timing.T() {
			t.Fatalf("2 leads %d names %v after 1 was frozen", len(two.leads), c.now.Sub(began))
		}
	}
}

// What is lost of the last assignments is sent later by the heartbeats, also to a member that is a candidate of
// no name: that the last name has ended, and that no member is drained.
func TestTheLastAssignmentsThatAreLostAreSentLater(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("b", Candidacy{}, "2", "3")
	m, boss := c.members["1"], c.members["3"]
	ask := func(do string) {
		_, actions := boss.c.Request(c.now, Request{Do: do, Member: "2"})
		boss.do(actions)
		c.run(time.Second)
	}
	ask(DoDrain)
	if len(m.c.names) != 1 || len(m.c.Drained()) != 1 {
		t.Fatalf("1 has the names %v and the drained %v, want b and 2", m.c.names, m.c.Drained())
	}
	lost := 0
	boss.loses = func(msg *election.Message) bool {
		if msg.To == "1" && msg.Kind == election.Named {
			lost++
			return true
		}
		return false
	}
	for _, id := range []election.ID{"2", "3"} {
		c.members[id].do(c.members[id].c.Withdraw(c.now, "b"))
	}
	c.run(10 * time.Millisecond)
	ask(DoUndrain)
	boss.loses = nil
	c.run(time.Second)
	if lost == 0 || len(m.c.names)+len(m.c.Drained()) != 0 {
		t.Errorf("after %d lost messages 1 has the names %v and the drained %v, want none", lost, m.c.names, m.c.Drained())
	}
}
