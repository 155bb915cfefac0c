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
