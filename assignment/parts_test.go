package assignment

import (
	"testing"

	"github.com/batuta-dev/batuta/election"
)

// frame has one member be sent a frame by another.
func (c *cluster) frame(from, to election.ID, f *frame) {
	m := c.members[to]
	m.step(election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Named, Election: "default", From: from, To: to, Token: m.view, Data: f.encode()}})
}

// Of a long list that is sent twice the first part may come of one and the rest of the other:
// that is no list.
func TestPartsOfTwoListsMakeNone(t *testing.T) {
	list := func(part int, version uint64) *frame {
		return &frame{Op: opAssign, Whole: true, Part: part, Parts: 2, Version: version}
	}
	c := newLedCluster(t, 3, "3", 4)
	was := c.members["1"].c.digest
	c.frame("3", "1", list(0, 70))
	c.frame("3", "1", list(1, 71))
	if c.members["1"].c.digest != was {
		t.Error("a member takes parts of two lists for one")
	}
	c.frame("3", "1", list(0, 70))
	c.leadAll(2, "2")
	c.frame("2", "1", list(1, 70))
	if c.members["1"].c.digest != was {
		t.Error("a member takes parts of two coordinators' lists for one")
	}
}

func TestPartsOfTwoReportsMakeNone(t *testing.T) {
	c := newLedCluster(t, 3, "3", 4)
	report := func(part int, version, incarnation uint64) {
		c.frame("1", "3", &frame{Op: opReport, Whole: true, Part: part, Parts: 2, Version: version, Incarnation: incarnation})
	}
	p := c.members["3"].c.office.peers["1"]
	was := p.version
	for what, second := range map[string][2]uint64{"two reports": {71, 1}, "two processes' reports": {70, 2}} {
		report(0, 70, 1)
		if report(1, second[0], second[1]); p.version != was {
			t.Errorf("the coordinator takes parts of %s for one", what)
		}
	}
	report(0, 70, 1)
	if report(1, 70, 1); p.version != 70 {
		t.Error("it takes no whole one either")
	}
}
