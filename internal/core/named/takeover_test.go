package named

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// newLeasedCluster is one whose leaderships are leases: 5 coordinates, and 1 leads a, for which 2
// is a candidate too.
func newLeasedCluster(t *testing.T) *cluster {
	c := newCluster(t, 5)
	for _, m := range c.members {
		m.c.leased, m.c.hold = true, m.c.wait*99/100
	}
	c.leadAll(1, "5")
	c.campaign("a", Candidacy{Prefer: true}, "1")
	c.campaign("a", Candidacy{}, "2")
	c.run(3 * time.Second)
	if !c.members["1"].leads["a"].Defined() {
		t.Fatal("1 does not lead a")
	}
	return c
}

// resign has a coordinator resign, and another follow it 20 ms later.
func (c *cluster) resign(id election.ID, epoch uint64, next election.ID) {
	c.members[id].step(election.Event{Kind: election.Resigned})
	c.run(20 * time.Millisecond)
	c.leadAll(epoch, next)
}

// ledBy2 is when 2 leads a, counted from now; it fails if 1 may still lead it.
func (c *cluster) ledBy2(within time.Duration) (after time.Duration) {
	c.t.Helper()
	for begun := c.now; c.now.Sub(begun) < within; c.run(10 * time.Millisecond) {
		if !c.members["2"].leads["a"].Defined() {
			continue
		}
		if until := c.members["1"].c.Until(); c.now.Before(until) {
			c.t.Errorf("2 leads a, and 1 may lead it for another %v", until.Sub(c.now))
		}
		return c.now.Sub(begun)
	}
	return within
}

// A leader dies while coordinators resign one after another: what it led is given away when its
// time has passed, however many they are.
func TestCoordinatorsThatResignInARowWaitOnce(t *testing.T) {
	c := newLeasedCluster(t)
	c.crash("1")
	died, wait, half := c.now, c.members["2"].c.wait, c.members["2"].c.timing.T()/2
	row := []election.ID{"5", "4", "3"}
	for i := range 5 {
		c.resign(row[i%3], uint64(i+2), row[(i+1)%3])
		c.run(wait / 6)
	}
	c.ledBy2(10 * wait)
	if took := c.now.Sub(died); took > wait+2*half {
		t.Errorf("a had no leader for %v, a wait is %v", took, wait)
	}
}

// A successor that follows at once waits for the rest of the former coordinator's wait alone. After
// one that did not resign, and after a leap of the clock, the wait is whole.
func TestWhatIsNotKnownIsWaitedForInFull(t *testing.T) {
	for what, between := range map[string]func(c *cluster){
		"another coordinated in between": func(c *cluster) { c.resign("5", 3, "4") },
		"its clock leapt": func(c *cluster) {
			c.members["5"].step(election.Event{Kind: election.Resigned})
			c.run(20 * time.Millisecond)
			for _, id := range []election.ID{"2", "3", "4"} {
				c.members[id].c.last, c.members[id].c.now = c.now.Add(-time.Hour), c.now.Add(-time.Hour)
			}
			c.leadAll(2, "4")
		},
		"it resigned without a list": func(c *cluster) { c.leadAll(2, "4") },
	} {
		c := newLeasedCluster(t)
		c.crash("1")
		wait := c.members["2"].c.wait
		c.run(wait * 3 / 4)
		begun := c.now
		between(c)
		c.ledBy2(10 * wait)
		if took := c.now.Sub(begun); took < wait {
			t.Errorf("%s: the next one waits %v, not %v", what, took, wait)
		}
	}
}

// A process that closes between two coordinators informs all members once its work has stopped, and
// then nothing waits for it.
func TestAProcessThatClosedIsNotWaitedFor(t *testing.T) {
	for stops, within := range map[bool]time.Duration{true: 100 * time.Millisecond, false: time.Hour} {
		c := newLeasedCluster(t)
		wait := c.members["2"].c.wait
		c.members["5"].step(election.Event{Kind: election.Resigned})
		c.run(10 * time.Millisecond)
		m := c.members["1"]
		m.standing, m.works["a"] = election.IneligibleClosing, true
		m.step(election.Event{Kind: election.Closing})
		c.run(10 * time.Millisecond)
		if stops {
			m.stops("a")
			c.run(10 * time.Millisecond)
			m.c.until = c.now // its process ends, and nothing of it runs
		}
		c.crash("1")
		begun := c.now
		c.leadAll(2, "4")
		c.ledBy2(10 * wait)
		if took := c.now.Sub(begun); took > within || !stops && took < wait/2 {
			t.Errorf("its work has stopped: %t; the next leader leads after %v, a wait is %v", stops, took, wait)
		}
	}
}

// Times of a former coordinator that cannot be are refused.
func TestTimesOfAFormerCoordinatorAreChecked(t *testing.T) {
	for what, f := range map[string]frame{
		"a rest":          {Rest: -1},
		"a wait":          {Wait: 1 << 62},
		"a time":          {Holders: []holder{{ID: "1", Left: -1}}},
		"an id":           {Holders: []holder{{ID: "\n"}}},
		"too many":        {Holders: make([]holder, election.MaxMembers+1)},
		"a time too long": {Holders: []holder{{ID: "1", Left: maxWait + 1}}},
	} {
		f.Op = opEnded
		if _, err := decode(f.encode()); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
}

// Under a lease a process that has the place of another is no proof that the other has stopped: it
// may run elsewhere, cut off, and a guard may still be ending its command.
func TestAProcessThatWasReplacedIsWaitedFor(t *testing.T) {
	c := newLeasedCluster(t)
	wait, until := c.members["1"].c.wait, c.members["1"].c.Until()
	c.crash("1")
	c.run(10 * time.Millisecond)
	again := c.start("1")
	again.c.leased, again.c.hold = true, wait*99/100
	c.lead(1, "5", "1")
	c.campaign("a", Candidacy{Prefer: true}, "1")
	led := func(id election.ID) bool { return c.members[id].leads["a"].Defined() }
	for !led("1") && !led("2") && c.now.Before(until.Add(wait)) {
		c.run(10 * time.Millisecond)
	}
	if c.now.Before(until) {
		t.Errorf("a is led again, and the process that was replaced may lead it for another %v", until.Sub(c.now))
	}
	if c.run(2 * wait); !led("1") {
		t.Error("the process that has its place does not lead a")
	}
}

// A coordinator that was stopped gives nothing to a member that was silent before: it would keep that forever.
func TestASilentMemberIsGivenNothingAfterAStop(t *testing.T) {
	c := newLeasedCluster(t)
	c.campaign("a", Candidacy{}, "5")
	c.members["1"].dead, c.members["2"].dead = true, true
	c.run(8 * time.Second)
	c.now = c.now.Add(c.members["5"].c.timing.Bears() + time.Millisecond)
	five := c.members["5"]
	five.step(election.Event{Kind: election.Woke})
	five.do(five.c.Withdraw(c.now, "a"))
	c.run(8 * time.Second)
	if e := five.c.at(key{"a", 0}); e != nil && e.Leader != election.None {
		t.Errorf("%s leads a, and it is dead", e.Leader)
	}
}
