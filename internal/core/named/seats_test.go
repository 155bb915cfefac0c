package named

import (
	"fmt"
	"slices"
	"strings"
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

// Two leaders are drained, and a third member can lead one of their seats: one of the two goes on.
func TestADrainedLeaderGoesOnWhereNoMemberIsLeft(t *testing.T) {
	c := newSeatedCluster(t, 4, 2, 2)
	c.members["1"].works["d"] = true
	for _, id := range []election.ID{"1", "2"} {
		c.ask("4", Request{Do: DoDrain, Member: id}, "")
	}
	c.members["4"].do(c.members["4"].c.Withdraw(c.now, "d"))
	c.run(50 * time.Millisecond)
	c.members["1"].stops("d")
	c.run(3 * time.Second)
	m := c.members["3"]
	if _, leads := m.leads["d"]; !leads || len(c.members["1"].leads)+len(c.members["2"].leads) != 1 {
		t.Errorf("1 leads %v, 2 %v, 3 %v, want a seat of 3 and one of the others", c.members["1"].leads, c.members["2"].leads, m.leads)
	}
}

// A transfer to a member to which a seat is being handed over waits for that one: no further leader
// is interrupted.
func TestATransferTakesTheSeatThatIsComing(t *testing.T) {
	c := newSeatedCluster(t, 4, 2, 1)
	c.members["2"].works["d"] = true
	was, _ := c.members["1"].c.Leads("d")
	m := c.members["4"]
	for _, r := range []Request{{Do: DoDrain, Member: "2"}, {Do: DoTransfer, Name: "d", Member: "3"}} {
		c.ask("4", r, "")
		c.run(50 * time.Millisecond)
	}
	c.members["2"].stops("d")
	c.run(time.Second)
	if is, _ := c.members["1"].c.Leads("d"); is != was || !was.Defined() {
		t.Errorf("1 leads as %v, and led as %v before what 2 gave up went to 3", is, was)
	}
	if leads, seat := c.members["3"].c.Leads("d"); !leads.Defined() || !m.c.Pinned("d", seat) {
		t.Errorf("3 leads as %v; want a lead given by hand", leads)
	}
}

// newSeatedCluster is one of n, led by the last. The first so many lead the seats of an election d,
// and those that follow are further candidates of it.
func newSeatedCluster(t *testing.T, n, seats, further int) *cluster {
	c := newLedCluster(t, n, election.ID(fmt.Sprint(n)), 0)
	c.seated(c.ids[:seats]...)
	c.campaign("d", Candidacy{Seats: seats}, c.ids[seats:seats+further]...)
	c.run(time.Second)
	return c
}

// seated has members lead the seats of an election d.
func (c *cluster) seated(ids ...election.ID) {
	c.campaign("d", Candidacy{Seats: len(ids)}, ids...)
	c.run(time.Second)
}

// ask has the coordinator do what is asked for, or refuse it with a text that has want.
func (c *cluster) ask(coordinator election.ID, r Request, want string) {
	c.t.Helper()
	m := c.members[coordinator]
	_, actions := m.c.Request(c.now, r)
	if got := m.c.Replies()[0].Error; !strings.Contains(got, want) || want == "" && got != "" {
		c.t.Errorf("%+v: %q, want %q", r, got, want)
	}
	m.do(actions)
}

// ledBy fails unless those members, and no others, lead the election d.
func (c *cluster) ledBy(want ...election.ID) {
	c.t.Helper()
	var ids []election.ID
	for _, id := range c.ids {
		if t, _ := c.members[id].c.Leads("d"); t.Defined() {
			ids = append(ids, id)
		}
	}
	if !slices.Equal(ids, want) {
		c.t.Errorf("%v lead, want %v", ids, want)
	}
}

// A member to which a drained leader hands over is not drained as well: it is the last candidate.
func TestTheSuccessorOfADrainedLeaderIsNotDrained(t *testing.T) {
	c := newSeatedCluster(t, 3, 1, 1)
	c.members["1"].works["d"] = true
	c.ask("3", Request{Do: DoDrain, Member: "1"}, "")
	c.run(50 * time.Millisecond)
	c.ask("3", Request{Do: DoDrain, Member: "2"}, "only member 2 could lead d")
	c.members["1"].stops("d")
	c.run(time.Second)
	c.ledBy("2")
}

// What is transferred while its leader's work stops goes to the last member that was named, though
// that is its leader, or a higher epoch gets known.
func TestTheLastTransferCounts(t *testing.T) {
	for to, known := range map[election.ID]uint64{"1": 0, "2": 1<<EpochBits + 9} {
		c := newSeatedCluster(t, 3, 1, 1)
		c.members["1"].works["d"] = true
		for _, id := range []election.ID{"2", to} {
			c.ask("3", Request{Do: DoTransfer, Name: "d", Member: id}, "")
			c.run(50 * time.Millisecond)
		}
		c.members["3"].c.office.raised([]Seat{{Name: "d", Epoch: known}})
		c.members["1"].stops("d")
		c.run(time.Second)
		c.ledBy(to)
	}
}

// A transfer takes the seat of a leader that was not chosen by hand.
func TestTwoTransfersLeadTwoSeats(t *testing.T) {
	for _, between := range []time.Duration{0, time.Second} {
		c := newSeatedCluster(t, 5, 2, 2)
		for _, id := range []election.ID{"3", "4"} {
			c.ask("5", Request{Do: DoTransfer, Name: "d", Member: id}, "")
			c.run(between)
		}
		c.run(time.Second)
		c.ledBy("3", "4")
	}
}

// The leader of a seat that ends may be given one that stays.
func TestATransferToALeaderOfASeatThatEnds(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	c.seated("1", "2")
	c.members["2"].works["d"] = true
	c.campaign("d", Candidacy{Seats: 1}, "1", "2")
	c.run(time.Second)
	c.ask("3", Request{Do: DoTransfer, Name: "d", Member: "2"}, "")
	c.run(time.Second)
	c.members["2"].stops("d")
	c.run(time.Second)
	c.ledBy("2")
}

// A member that comes takes the seat of the leader with most to lead, or of one that is not
// preferred: the other leader would only change its seat.
func TestTheWorstLeaderIsReplaced(t *testing.T) {
	for _, prefer := range []bool{false, true} {
		c := newLedCluster(t, 4, "4", 0)
		c.seated("1", "2")
		c.campaign("d", Candidacy{Seats: 2, Prefer: prefer}, "1")
		for i := range 12 {
			c.campaign(fmt.Sprint("shard-", i), Candidacy{}, []election.ID{"1", "2", "2"}[i%3])
		}
		c.run(time.Second)
		was, _ := c.members["1"].c.Leads("d")
		c.campaign("d", Candidacy{Seats: 2, Prefer: prefer}, "3")
		c.run(3 * time.Second)
		c.ledBy("1", "3")
		if is, _ := c.members["1"].c.Leads("d"); is != was {
			t.Errorf("prefer %v: 1 leads as %v, want %v", prefer, is, was)
		}
	}
}

// A seat without a leader ends when the election has fewer seats.
func TestASeatThatEndsIsForgotten(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	c.seated("1", "2")
	c.members["2"].do(c.members["2"].c.Withdraw(c.now, "d"))
	c.run(time.Second)
	c.campaign("d", Candidacy{Seats: 1}, "1")
	c.run(time.Second)
	for _, m := range c.members {
		if seats := m.c.names["d"]; len(seats) != 1 {
			t.Errorf("%s has %d seats, want 1", m.id, len(seats))
		}
	}
}

// A member that resigns, and gets its seat back as the only candidate, was not chosen by hand: a
// preferred one that comes later leads.
func TestTheOnlyCandidateThatResignsIsNotPinned(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	c.seated("1")
	c.members["1"].do(c.members["1"].c.Resign(c.now, "d"))
	c.run(time.Second)
	c.ledBy("1")
	c.campaign("d", Candidacy{Prefer: true}, "2")
	c.run(time.Second)
	c.ledBy("2")
}

// A seat without a leader goes to a candidate to which no other seat is being handed over, if there
// is one: the transfer is not dropped.
func TestAnEmptySeatIsNotForTheMemberOfATransfer(t *testing.T) {
	c := newSeatedCluster(t, 5, 2, 2)
	c.members["1"].works["d"] = true
	c.ask("5", Request{Do: DoTransfer, Name: "d", Member: "3"}, "")
	c.run(50 * time.Millisecond)
	c.members["2"].do(c.members["2"].c.Withdraw(c.now, "d"))
	c.run(time.Second)
	c.members["1"].stops("d")
	c.run(time.Second)
	c.ledBy("3", "4")
	for _, e := range c.members["5"].c.names["d"] {
		if e.Pinned != (e.Leader == "3") {
			t.Errorf("seat %d of %s: pinned %v", e.Seat.Seat, e.Leader, e.Pinned)
		}
	}
}

// A transfer that is repeated while its seat waits for room interrupts no further leader.
func TestATransferToAnEmptySeatMayBeRepeated(t *testing.T) {
	c := newLedCluster(t, 4, "4", 0)
	c.seated("1", "2", "3")
	was, _ := c.members["1"].c.Leads("d")
	c.members["3"].works["d"] = true
	c.members["2"].do(c.members["2"].c.Withdraw(c.now, "d"))
	c.campaign("d", Candidacy{Seats: 2}, "1", "3") // the seat of 3 ends, and it works on
	c.run(time.Second)
	c.campaign("d", Candidacy{Seats: 2}, "2")
	c.run(time.Second)
	for range 2 {
		c.ask("4", Request{Do: DoTransfer, Name: "d", Member: "2"}, "")
		c.run(time.Second)
	}
	c.members["3"].stops("d")
	c.run(time.Second)
	c.ledBy("1", "2")
	if is, _ := c.members["1"].c.Leads("d"); is != was {
		t.Errorf("1 leads as %v, want %v", is, was)
	}
}

// A leader that gets a higher epoch was chosen by hand if it was before.
func TestAHigherEpochLeavesALeaderPinned(t *testing.T) {
	c := newSeatedCluster(t, 3, 1, 1)
	c.ask("3", Request{Do: DoTransfer, Name: "d", Member: "2"}, "")
	c.run(time.Second)
	c.members["3"].c.office.raised([]Seat{{Name: "d", Epoch: 1<<EpochBits + 9}})
	c.run(time.Second)
	if e := c.members["3"].c.names["d"][0]; e.Leader != "2" || e.Epoch <= 1<<EpochBits+9 || !e.Pinned {
		t.Errorf("%s leads with epoch %d, pinned %v", e.Leader, e.Epoch, e.Pinned)
	}
}

// Preference comes before shares: the leader that another is preferred to has less then.
func TestALeaderKeepsWhatPreferenceLeavesIt(t *testing.T) {
	c := newLedCluster(t, 2, "2", 0)
	c.campaign("a", Candidacy{Weight: 4}, "1")
	c.campaign("c", Candidacy{Weight: 4}, "1")
	c.run(time.Second)
	was, _ := c.members["1"].c.Leads("a")
	m := c.members["2"]
	m.do(m.c.Campaign(c.now, Stand{"a", Candidacy{Weight: 4, Seats: 1}}, Stand{"c", Candidacy{Weight: 4, Seats: 1, Prefer: true}}))
	c.run(time.Second)
	if is, _ := c.members["1"].c.Leads("a"); is != was {
		t.Errorf("1 leads as %v, want %v", is, was)
	}
}

// A transfer to a member that was to lead a seat that ends takes one that stays.
func TestATransferToTheNextLeaderOfASeatThatEnds(t *testing.T) {
	c := newSeatedCluster(t, 4, 2, 1)
	c.members["2"].works["d"] = true
	c.ask("4", Request{Do: DoDrain, Member: "2"}, "")
	c.run(50 * time.Millisecond)
	c.campaign("d", Candidacy{Seats: 1}, "1", "2", "3")
	c.run(time.Second)
	c.ask("4", Request{Do: DoTransfer, Name: "d", Member: "3"}, "")
	c.run(time.Second)
	c.members["2"].stops("d")
	c.run(time.Second)
	c.ledBy("3")
}

// newPartedCluster has members 1, 2 and 4 on one side, where 4 coordinates and 1 leads by a transfer, and 3 and 5 on the
// other, where 5 coordinates and 3 leads under a higher epoch.
func newPartedCluster(t *testing.T) *cluster {
	c := newLedCluster(t, 5, "4", 0)
	c.seated("2")
	c.campaign("d", Candidacy{}, "1")
	c.run(time.Second)
	c.ask("4", Request{Do: DoTransfer, Name: "d", Member: "1"}, "")
	c.run(time.Second)
	for _, a := range []election.ID{"1", "2", "4"} {
		for _, b := range []election.ID{"3", "5"} {
			c.cut[[2]election.ID{a, b}], c.cut[[2]election.ID{b, a}] = true, true
		}
	}
	c.lead(2, "5", "3")
	c.lead(3, "4", "1", "2")
	c.campaign("d", Candidacy{}, "3")
	c.run(2 * time.Second)
	return c
}

// A leader of a higher epoch was not chosen by hand because the one before was.
func TestALeaderOfAHigherEpochIsNotPinned(t *testing.T) {
	c := newPartedCluster(t)
	clear(c.cut)
	c.lead(3, "4", "1", "2", "3", "5")
	c.run(2 * time.Second)
	c.ledBy("3")
	c.campaign("d", Candidacy{Prefer: true}, "1")
	c.run(2 * time.Second)
	c.ledBy("1")
}

// A transfer ends when a leader of a higher epoch turns up: its target is not to lead after that one.
func TestATransferEndsWithTheLeaderOfAHigherEpoch(t *testing.T) {
	c := newPartedCluster(t)
	c.campaign("e", Candidacy{Weight: 9}, "2") // 1 has the smaller share
	c.run(time.Second)
	c.members["1"].works["d"] = true
	c.ask("4", Request{Do: DoTransfer, Name: "d", Member: "2"}, "")
	c.run(100 * time.Millisecond)
	clear(c.cut)
	c.lead(3, "4", "1", "2", "3", "5")
	c.run(time.Second)
	c.members["1"].stops("d")
	c.run(time.Second)
	c.ledBy("3")
	c.members["3"].do(c.members["3"].c.Withdraw(c.now, "d"))
	c.run(time.Second)
	c.ledBy("1")
}
