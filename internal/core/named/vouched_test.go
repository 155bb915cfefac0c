package named

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// What is left of a leadership may run while the coordinator confirms it. Once that time has
// passed another may lead: what still runs is not confirmed again, whatever arrives.
func TestWhatIsLeftOfALeadIsVouchedForOnce(t *testing.T) {
	c := newCluster(t, 2)
	c.leadAll(1, "2")
	c.campaign("a", Candidacy{}, "1")
	c.run(time.Second)
	one := c.members["1"]
	if left := one.c.Vouched("a").Sub(c.now); left <= 0 || left > one.c.hold {
		t.Fatalf("vouched for another %v, want up to %v", left, one.c.hold)
	}
	if !one.c.Vouched("b").IsZero() {
		t.Error("vouched for what it does not lead")
	}
	one.works["a"] = true // it does not stop when it is told to
	one.do(one.c.Withdraw(c.now, "a"))
	c.run(2 * one.c.wait)
	if left := one.c.Vouched("a").Sub(c.now); left <= 0 {
		t.Fatalf("work that still stops is not vouched for (%v), although the coordinator waits for it", left)
	}
	for _, way := range [][2]election.ID{{"1", "2"}, {"2", "1"}} {
		c.cut[way] = true
	}
	c.run(2 * one.c.wait)
	clear(c.cut)
	c.run(2 * one.c.wait)
	if !one.c.Until().After(c.now) {
		t.Fatal("the coordinator is not heard again: nothing is tried here")
	}
	if !one.c.Vouched("a").IsZero() {
		t.Error("work of a lead whose time had passed is vouched for again")
	}
}

// The stamp of an earlier process confirms nothing of the process that has its place. Its time is that of
// the earlier process, so its number may be one that the new process has just reached.
func TestAnEarlierProcessConfirmsNothing(t *testing.T) {
	const lag = 600 * time.Millisecond // of messages from 5 to 1
	c := newLeasedCluster(t)
	echo, wait := c.members["5"].c.office.peers["1"].stamp, c.members["1"].c.wait
	c.crash("1")
	one := c.start("1")
	one.c.leased, one.c.hold = true, wait*99/100
	c.run(time.Duration(echo) - lag*3/4)
	var late []*election.Message
	var due []time.Time
	reported := false
	c.loses = func(m *election.Message) bool {
		if m.To == "1" && m.From == "5" {
			late, due = append(late, m), append(due, c.now.Add(lag))
		}
		return m.To == "1" || m.From == "1" && reported
	}
	one.do(one.c.Campaign(c.now, Stand{"b", Candidacy{Weight: 1, Seats: 1}}))
	c.members["5"].step(election.Event{Kind: election.LinkUp, Peer: "1", Incarnation: 2})
	c.lead(1, "5", "1")
	c.run(5 * time.Millisecond)
	reported = true // nothing of it arrives later
	c.campaign("b", Candidacy{}, "2")
	begun := false
	for end := c.now.Add(4 * wait); c.now.Before(end); c.run(time.Millisecond) {
		for len(due) > 0 && !due[0].After(c.now) {
			one.step(election.Event{Kind: election.Received, Message: late[0]})
			late, due = late[1:], due[1:]
		}
		begun = begun || one.leads["b"].Defined()
		if one.leads["b"].Defined() && c.members["2"].leads["b"].Defined() {
			t.Fatalf("2 leads b, and 1 counts on it for another %v", one.c.Until().Sub(c.now))
		}
	}
	if !begun || !c.members["2"].leads["b"].Defined() {
		t.Fatal("1 has not led b, or 2 does not: nothing is tried here")
	}
}
