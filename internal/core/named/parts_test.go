package named

import (
	"reflect"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/testkit/walls"
)

// frame has one member be sent a frame by another.
func (c *cluster) frame(from, to election.ID, f *frame) {
	m := c.members[to]
	m.step(election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Named, Election: "default", From: from, To: to, Token: m.view, Data: f.encode()}})
}

// A part reaches the parts below it, and neither its owner nor itself.
func TestAPartCannotReachItsOwner(t *testing.T) {
	owner := reflect.TypeFor[Core]()
	for _, part := range []reflect.Type{reflect.TypeFor[ground](), reflect.TypeFor[member](), reflect.TypeFor[former](), reflect.TypeFor[office](), reflect.TypeFor[contests]()} {
		reached, functions := walls.Reach(part, owner.PkgPath())
		if reached[owner] || reached[part] {
			t.Errorf("%v reaches its owner: %v, itself: %v", part, reached[owner], reached[part])
		}
		for _, of := range functions {
			if of.Type != reflect.TypeFor[func(election.Record)]() {
				t.Errorf("%v has a function of its own, which may reach its owner: %v", part, of)
			}
		}
	}
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

// What a member has given up it leads no more under the same token, although the coordinator
// heard last that it still works for it, and has said meanwhile that it leads nothing.
func TestWhatWasGivenUpIsNotTakenAgain(t *testing.T) {
	for what, said := range map[string]func(held uint64, seat int) []Seat{
		"nobody leads it": func(held uint64, seat int) []Seat {
			return []Seat{{Name: "b", Seat: seat, Epoch: held}, {Name: "b", Seat: 1 - seat, Leader: "2", Epoch: held + 7}}
		},
		"another leads it, as on another side of a partition": func(held uint64, seat int) []Seat {
			return []Seat{{Name: "b", Seat: seat, Leader: "3", Epoch: held - 1}}
		},
	} {
		c := newLedCluster(t, 3, "3", 0)
		c.campaign("b", Candidacy{Seats: 2}, "1", "2")
		c.run(time.Second)
		m := c.members["1"]
		held, seat := m.c.Leads("b")
		if !held.Defined() {
			t.Fatal("1 leads no seat")
		}
		tells := func(seats ...Seat) {
			c.frame("3", "1", &frame{Op: opAssign, Base: m.c.version, Version: m.c.version + 1, Seats: seats})
		}
		m.works["b"] = true
		c.frame("3", "1", &frame{Op: opRelease, Seats: []Seat{{Name: "b", Seat: seat, Epoch: held.Epoch}}})
		m.stops("b")
		tells(said(held.Epoch, seat)...)
		tells(Seat{Name: "b", Seat: seat, Leader: "1", Epoch: held.Epoch})
		if again, _ := m.c.Leads("b"); again.Defined() {
			t.Errorf("after it was told that %s: it leads again under %v", what, again)
		}
	}
}
