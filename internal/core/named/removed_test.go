package named

import (
	"slices"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// crashForGood ends a member and takes it off the list.
func (c *cluster) crashForGood(id election.ID) {
	c.crash(id)
	c.ids = slices.DeleteFunc(c.ids, func(other election.ID) bool { return other == id })
}

// The only candidate of a name is removed from the cluster: the name has ended.
func TestANameWithoutCandidatesOnTheListEnds(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("x", Candidacy{}, "1")
	c.campaign("y", Candidacy{}, "2")
	c.run(time.Second)
	c.crashForGood("1")
	c.run(time.Minute)
	if c.members["3"].c.names["x"] != nil {
		t.Error("election x is still listed by its coordinator")
	}
	if c.members["3"].c.names["y"] == nil {
		t.Error("election y is not listed any more")
	}
}

// A member that is drained and then removed, as before each end of a machine, leaves no trace with
// this coordinator or the next.
func TestADrainedMemberThatIsRemovedIsForgotten(t *testing.T) {
	for _, same := range []bool{true, false} {
		c := newLedCluster(t, 3, "3", 4)
		m := c.members["3"]
		_, actions := m.c.Request(c.now, Request{Do: DoDrain, Member: "1"})
		m.do(actions)
		c.run(time.Second)
		c.crashForGood("1")
		coordinator := election.ID("3")
		if !same {
			coordinator = "2"
			c.leadAll(2, coordinator)
		}
		c.run(time.Minute)
		if left := c.members[coordinator].c.Drained(); len(left) > 0 {
			t.Errorf("%v is still drained by %s, and no member", left, coordinator)
		}
	}
}
