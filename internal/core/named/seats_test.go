package named

import (
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

// Members of a side of a partition, where an election with two seats was led under higher epochs,
// watch those who lead it when the sides have met: under epochs above those that they have seen.
func TestEverySeatIsRaisedWhenSidesMeet(t *testing.T) {
	c := newCluster(t, 4)
	c.leadAll(1, "4")
	c.campaign("pool", Candidacy{Seats: 2}, c.ids...)
	c.run(time.Second)
	for _, a := range []election.ID{"1", "2"} {
		for _, b := range []election.ID{"3", "4"} {
			c.cut[[2]election.ID{a, b}], c.cut[[2]election.ID{b, a}] = true, true
		}
	}
	c.run(700 * time.Millisecond)
	c.lead(2, "2", "1")
	c.run(3 * time.Second)
	for _, id := range []election.ID{"1", "2"} {
		m := c.members[id]
		if len(m.leads) != 1 {
			t.Fatalf("%s leads %v", id, m.leads)
		}
		m.do(m.c.Withdraw(c.now, "pool"))
	}
	c.run(time.Second)
	clear(c.cut)
	c.leadAll(3, "4")
	c.run(3 * time.Second)
	for _, id := range c.ids {
		for seat := range 2 {
			shown := c.members[id].seen[key{"pool", seat}]
			if l := shown.Leader.ID; (l != "3" && l != "4") || shown != c.members[l].leads["pool"] {
				t.Errorf("%s sees %v in seat %d; 3 leads as %v, 4 as %v", id, shown, seat, c.members["3"].leads, c.members["4"].leads)
			}
		}
	}
}

// What is alike of two seats is no reason for one hash: what changes at both would cancel out.
func TestSeatsHaveHashesOfTheirOwn(t *testing.T) {
	seen := map[uint64]Seat{}
	for letter := 'a'; letter <= 'z'; letter++ {
		for seat := range MaxSeats {
			s := Seat{Name: string(letter), Seat: seat, Leader: "1", Epoch: 1 << EpochBits}
			if other, taken := seen[hash(s)]; taken {
				t.Fatalf("%+v and %+v have one hash", s, other)
			}
			seen[hash(s)] = s
		}
	}
}

// The leader of a seat that stays goes on, under its token, when its name gets fewer seats.
func TestFewerSeatsInterruptNoLeader(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	c.campaign("b", Candidacy{Seats: 3}, "1", "2", "3")
	c.run(time.Second)
	m := c.members["3"]
	was, seat := m.c.Leads("b")
	if seat != 0 || !was.Defined() {
		t.Fatalf("3 leads seat %d as %v, want seat 0", seat, was)
	}
	c.campaign("b", Candidacy{Seats: 1}, "1", "2", "3")
	c.run(2 * time.Second)
	if is, _ := m.c.Leads("b"); is != was {
		t.Errorf("of three seats one stays: its leader leads as %v, want %v", is, was)
	}
	if leads, _ := c.members["1"].c.Leads("b"); leads.Defined() {
		t.Errorf("1 leads as %v, want no lead", leads)
	}
}
