package quorum

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

func recovery(list string) (members []election.Member) {
	for _, id := range ids(list) {
		members = append(members, election.Member{Rank: election.Rank{ID: id}, Address: "host-" + string(id) + ":7400"})
	}
	return members
}

// One disk of three is left. Recovered, its member leads alone, above every epoch of before and
// the one given; the disks of before have no part in it.
func TestARecoveredMemberLeadsAlone(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	before := n.cores["1"].View().Epoch
	r, err := Recover(n.disks["1"], "1", recovery("1,2"), before+40)
	if err != nil {
		t.Fatal(err)
	}
	if r.Epoch != before || !slices.EqualFunc(r.Voters, ids("1,2,3"), func(m election.Member, id election.ID) bool { return m.ID == id }) {
		t.Errorf("epoch %d and voters %v were found, want %d and all three", r.Epoch, r.Voters, before)
	}
	n.disks["1"] = r.Records
	n.start("1", "1", "2", "3")
	n.run(5 * time.Second)
	view := n.cores["1"].View()
	if view.Leader.ID != "1" || view.Epoch <= before+40 {
		t.Errorf("1 follows %v, want itself above epoch %d", view, before+40)
	}
	for _, id := range []election.ID{"2", "3"} {
		if v := n.cores[id].View(); v.Epoch > before+40 {
			t.Errorf("%s, with its disk of before, follows %v of the recovered cluster", id, v)
		}
	}
	if voters := n.cores["1"].Voters(); len(voters) != 1 || len(voters[0]) != 1 {
		t.Errorf("the voters are %v, want 1 alone", voters)
	}
}

// A disk of before a recovery, of a member that is on no list since: the member is informed why it takes
// no part, and does not count the recovered one as a voter that it reaches.
func TestADiskOfBeforeARecoveryIsInformed(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	r, err := Recover(n.disks["1"], "1", recovery("1"), 0)
	if err != nil {
		t.Fatal(err)
	}
	n.disks["1"], n.ids = r.Records, []election.ID{"1", "2"}
	delete(n.cores, "3")
	n.start("1", "1")
	n.run(time.Second)
	n.start("2", "1", "2", "3")
	n.settle()
	if err := n.warned["2"]; err == nil || !strings.Contains(err.Error(), "member 1 has the log of another cluster") {
		t.Errorf("2 warns of %v, want the recovery", err)
	}
	if s := n.cores["2"].Standing(); s != election.IneligibleFew {
		t.Errorf("2 is %v, want %v", s, election.IneligibleFew)
	}
}

// A cluster that changes from best effort to a quorum, with its disks, counts on.
func TestTheFirstEpochIsAboveThoseOfBestEffort(t *testing.T) {
	n := newNetwork(t)
	n.ids, n.held = ids("1,2,3"), election.Token{Epoch: 40, Leader: election.Rank{ID: "2"}}
	for _, id := range n.ids {
		n.start(id, n.ids...)
	}
	n.run(3 * time.Second)
	if n.leader(); n.cores["1"].View().Epoch <= n.held.Epoch {
		t.Errorf("the first leadership is %v, want an epoch above 40", n.cores["1"].View())
	}
}

// A member that was removed, and one that was added, are not forgotten: no number comes twice.
func TestARecoveryGivesNoNumberTwice(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.step(n.leader(), election.Event{Kind: election.MemberRemoved, Peer: "3"})
	n.settle()
	n.ids = []election.ID{"1", "2"}
	n.run(3 * time.Second)
	r, err := Recover(n.disks["1"], "1", recovery("1,3"), 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := load(r.Records)
	if err != nil {
		t.Fatal(err)
	}
	list, err := decodeRoster(s.snapshot.GetData(), s.snapshot.GetMetadata().GetConfState())
	if err != nil {
		t.Fatal(err)
	}
	if seat := list.of("3"); seat == nil || seat.Number <= 3 || list.votes(seat.Number) {
		t.Errorf("3 has the seat %+v, want a number above 3 and no vote", seat)
	}
	if list.of("2") != nil || !slices.Contains(list.Gone, "2") {
		t.Errorf("2 is not gone: %+v", list)
	}
}

func TestWhatARecoveryRefuses(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	log := n.disks["1"]
	for name, try := range map[string]func() (Recovered, error){
		"an empty log":            func() (Recovered, error) { return Recover(nil, "1", recovery("1"), 0) },
		"the log of another":      func() (Recovered, error) { return Recover(log, "2", recovery("2"), 0) },
		"a list without itself":   func() (Recovered, error) { return Recover(log, "1", recovery("2"), 0) },
		"no list":                 func() (Recovered, error) { return Recover(log, "1", nil, 0) },
		"a member twice":          func() (Recovered, error) { return Recover(log, "1", recovery("1,2,2"), 0) },
		"ids of two kinds":        func() (Recovered, error) { return Recover(log, "1", recovery("1,db"), 0) },
		"an epoch without a next": func() (Recovered, error) { return Recover(log, "1", recovery("1"), election.MaxEpoch) },
		"a damaged record": func() (Recovered, error) {
			return Recover(append(slices.Clone(log), []byte("e?")), "1", recovery("1"), 0)
		},
	} {
		if r, err := try(); err == nil || r.Records != nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
