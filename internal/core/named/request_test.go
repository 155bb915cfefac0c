package named

import (
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

func TestPreferWeightsAndSeats(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("heavy", Candidacy{Weight: 10}, c.ids...)
	c.names(20)
	c.campaign("mine", Candidacy{Prefer: true}, "2")
	c.campaign("mine", Candidacy{}, "1", "3")
	c.run(2 * time.Second)
	shares := c.shares(22)
	for id, n := range shares {
		if _, has := c.members[id].leads["heavy"]; has && n > 8 {
			t.Errorf("%s leads the heavy one and %d more", id, n-1)
		}
	}
	if _, leads := c.members["2"].leads["mine"]; !leads {
		t.Error("2 is preferred for mine, and does not lead it")
	}
	c.campaign("pool", Candidacy{Seats: 2}, c.ids...)
	c.run(time.Second)
	holders := 0
	for _, id := range c.ids {
		if _, has := c.members[id].leads["pool"]; has {
			holders++
		}
	}
	if holders != 2 {
		t.Errorf("%d hold one of 2 seats", holders)
	}
}

func TestTransfer(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	var name string
	for name = range c.members["2"].leads {
		break
	}
	for _, test := range []struct {
		by    election.ID
		r     Request
		wants string
	}{
		{"1", Request{Do: DoTransfer, Name: name, Member: "1"}, ""},
		{"3", Request{Do: DoTransfer, Name: name, Member: "1"}, ""}, // it has it
		{"1", Request{Do: DoTransfer, Name: "nothing", Member: "1"}, "no election"},
		{"3", Request{Do: DoTransfer, Name: name, Member: "7"}, "no member"},
		{"2", Request{Do: "dance"}, "does not know how to dance"},
	} {
		m := c.members[test.by]
		m.replies = nil
		_, actions := m.c.Request(c.now, test.r)
		m.do(actions)
		c.run(time.Second)
		if len(m.replies) != 1 || (m.replies[0].Error == "") != (test.wants == "") || !strings.Contains(m.replies[0].Error, test.wants) {
			t.Errorf("%+v: %+v", test.r, m.replies)
		}
	}
	if _, leads := c.members["1"].leads[name]; !leads {
		t.Error("it was not transferred")
	}
	c.run(5 * time.Second)
	c.shares(9)
}

func TestDrain(t *testing.T) {
	c := newCluster(t, 4)
	c.leadAll(1, "4")
	c.names(40)
	c.campaign("alone", Candidacy{}, "1")
	c.run(time.Second)
	ask := func(by election.ID, r Request) string {
		m := c.members[by]
		m.replies = nil
		_, actions := m.c.Request(c.now, r)
		m.do(actions)
		c.run(2 * time.Second)
		if len(m.replies) != 1 {
			t.Fatalf("%+v: %+v", r, m.replies)
		}
		return m.replies[0].Error
	}
	if got := ask("2", Request{Do: DoDrain, Member: "1"}); !strings.Contains(got, "only member 1 could lead alone:") {
		t.Errorf("draining the last candidate: %q", got)
	}
	if got := ask("2", Request{Do: DoDrain, Member: "1", Force: true}); got != "" {
		t.Errorf("with force: %q", got)
	}
	if shares := c.shares(40); shares["1"] != 0 {
		t.Errorf("drained it leads %d", shares["1"])
	}
	c.crash("4") // the next coordinator keeps it away, too
	c.leadAll(2, "3")
	c.run(3 * time.Second)
	if shares := c.shares(40); shares["1"] != 0 {
		t.Errorf("under another coordinator it leads %d", shares["1"])
	}
	if got := ask("1", Request{Do: DoUndrain, Member: "1"}); got != "" {
		t.Error(got)
	}
	if shares := c.shares(41); !even(map[election.ID]int{"1": shares["1"], "2": shares["2"], "3": shares["3"]}) {
		t.Errorf("shares %v", shares)
	}
}

// One of two may be drained while the other leads, too: what that one leads has no further
// candidate and needs none.
func TestDrainOneOfTwo(t *testing.T) {
	c := newLedCluster(t, 2, "2", 10)
	if shares := c.shares(10); !even(shares) {
		t.Fatalf("shares %v", shares)
	}
	m := c.members["1"]
	_, actions := m.c.Request(c.now, Request{Do: DoDrain, Member: "2"})
	m.do(actions)
	c.run(2 * time.Second)
	if len(m.replies) != 1 || m.replies[0].Error != "" {
		t.Errorf("%+v", m.replies)
	}
	if shares := c.shares(10); shares["2"] != 0 {
		t.Errorf("drained it leads %d", shares["2"])
	}
}

// A heavy election counts for as many as it weighs: its leader gets few beside it.
func TestWeightsCount(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("heavy", Candidacy{Weight: 10}, c.ids...)
	c.run(time.Second)
	c.names(20)
	c.run(2 * time.Second)
	for id, n := range c.shares(21) {
		if _, has := c.members[id].leads["heavy"]; has && n > 4 {
			t.Errorf("%s leads the heavy one and %d of 20 more", id, n-1)
		}
	}
}

// What was transferred stays where it is, whatever the shares; other names are moved for them.
func TestWhatWasTransferredStays(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	var names []string
	for name := range c.members["2"].leads {
		names = append(names, name)
	}
	for _, name := range names {
		_, actions := c.members["3"].c.Request(c.now, Request{Do: DoTransfer, Name: name, Member: "1"})
		c.members["3"].do(actions)
	}
	c.run(5 * time.Second)
	for _, name := range names {
		if _, leads := c.members["1"].leads[name]; !leads {
			t.Errorf("%s was transferred to 1, which does not lead it", name)
		}
	}
	if shares := c.shares(9); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}
