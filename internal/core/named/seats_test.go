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
