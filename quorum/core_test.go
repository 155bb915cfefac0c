package quorum

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// While one configuration takes over from another, a lease counts from the round that a
// majority of both has acknowledged: the later one of one alone is not enough.
func TestALeaseTakesAMajorityOfBothConfigurations(t *testing.T) {
	for _, test := range []struct {
		name           string
		voters, before []uint64
		acked          map[uint64]int64
		want           int64
	}{
		{"one configuration", []uint64{1, 2, 3}, nil, map[uint64]int64{2: 70, 3: 40}, 70},
		{"nobody has answered", []uint64{1, 2, 3}, nil, nil, 0},
		{"half is none", []uint64{1, 2, 3, 4}, nil, map[uint64]int64{2: 70}, 0},
		{"the new one alone", []uint64{1, 2, 3}, []uint64{1, 4, 5}, map[uint64]int64{2: 70, 3: 60}, 0},
		{"the old one alone", []uint64{1, 4, 5}, []uint64{1, 2, 3}, map[uint64]int64{2: 70, 3: 60}, 0},
		{"both, the old one earlier", []uint64{1, 2, 3}, []uint64{1, 4, 5}, map[uint64]int64{2: 70, 5: 30}, 30},
		{"both, the new one earlier", []uint64{1, 4, 5}, []uint64{1, 2, 3}, map[uint64]int64{2: 70, 5: 30}, 30},
		{"it votes in the old one only", []uint64{2, 3, 4}, []uint64{1, 2, 3, 4}, map[uint64]int64{2: 70, 3: 50}, 50},
	} {
		c := &crew{tenure: &tenure{ground: &ground{origin: begin}}, replica: &replica{identity: identity{me: self{Number: 1}}}}
		c.sent = begin.Add(99)
		c.roster.conf = &pb.ConfState{Voters: test.voters, VotersOutgoing: test.before}
		for n := uint64(2); n <= 5; n++ {
			c.peers = append(c.peers, peer{number: n, acked: test.acked[n]})
		}
		if got := c.acknowledged(); got != test.want {
			t.Errorf("%s: acknowledged at %d, want %d", test.name, got, test.want)
		}
	}
}

// A member that starts again with another list of members than the first time is refused
// before it sends anything, with what differs; with the same list in another order it is not.
func TestAListThatDiffersAtARestartIsRefused(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	for list, want := range map[string][]string{
		"1,2":     {"only there: 3", "start with the first list, 1,2,3"},
		"1,2,3,4": {"only here: 4", "start with the first list, 1,2,3"},
		"1,2,4":   {"only here: 4, only there: 3"},
	} {
		_, err := New().NewCore(configured("1", ids(list), n.disks["1"]))
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("with %s: %v does not say %q", list, err, w)
			}
		}
	}
	for _, list := range []string{"1,2,3", "3,1,2", "2,3"} { // itself is always on it
		if _, err := New().NewCore(configured("1", ids(list), n.disks["1"])); err != nil {
			t.Errorf("with %s: %v", list, err)
		}
	}
	joins := configured("1", ids("1,2"), n.disks["1"])
	joins.Joins = true // it asks for its place, and its list is the log's
	if _, err := New().NewCore(joins); err != nil {
		t.Errorf("joining: %v", err)
	}
	if _, err := New().NewCore(configured("2", ids("1,2,3"), n.disks["1"])); err == nil || !strings.Contains(err.Error(), "belongs to member 1") {
		t.Errorf("with another's log: %v", err)
	}
}

// Members come and go by the log; the list of the first start stays the one to start with.
func TestTheFirstListStillFitsWhenMembersHaveGone(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.step("3", election.Event{Kind: election.MemberRemoved, Peer: "2"})
	n.settle()
	n.run(3 * time.Second)
	if !errors.Is(n.halted["2"], election.ErrRemoved) {
		t.Fatalf("member 2 has ended: %v", n.halted["2"])
	}
	n.start("1", ids("1,2,3")...)
	n.settle()
	n.run(3 * time.Second)
	if got := n.cores["1"].Voters(); len(got) != 1 || !slices.Equal(got[0], ids("1,3")) || n.leader() != "3" {
		t.Errorf("the voters are %v", got)
	}
}

// A change that an earlier process of a member has on disk as committed is no event of the next: its list has it
// from the start.
func TestARestartAnnouncesNoEarlierChange(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.step("1", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "4"}, Address: "host-4:7400"}})
	n.settle()
	n.run(3 * time.Second)
	core, err := New().NewCore(configured("2", ids("1,2,3"), n.disks["2"]))
	if err != nil || !core.(*Core).Knows("4") {
		t.Fatalf("%v; member 4 is on its disk, and not on its list", err)
	}
	for _, a := range core.Step(n.now, election.Event{Kind: election.Started}) {
		if a.Kind == election.Notify {
			t.Errorf("it announces that %s is %s", a.Member, a.Status)
		}
	}
}

func ids(list string) (ids []election.ID) {
	for _, id := range strings.Split(list, ",") {
		ids = append(ids, election.ID(id))
	}
	return ids
}

// A leader knows which votes its lease is made of, and a follower what it has promised.
func TestVotesAreTold(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	leads := n.cores["3"].Votes()
	if len(leads.Voters) != 1 || len(leads.Voters[0]) != 3 || len(leads.Answered) != 2 || !leads.Lease.After(leads.Answered["1"]) {
		t.Errorf("the leader tells %+v", leads)
	}
	follows := n.cores["1"].Votes()
	if follows.PromisedTo != "3" || follows.Promise.IsZero() || follows.Answered != nil || !follows.Lease.IsZero() {
		t.Errorf("a follower tells %+v", follows)
	}
}

// A minority cannot change the list, and reports how many of how many answer.
func TestAMinorityRefusesAChangeAndCountsWhoAnswers(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	if l := n.leader(); l != "3" {
		t.Fatalf("%s leads", l)
	}
	n.lost = true
	n.step("1", election.Event{Kind: election.LinkDown, Peer: "2"})
	n.step("1", election.Event{Kind: election.LinkDown, Peer: "3"})
	for range 20 { // until it knows no leader
		n.queue = nil // no member answers a dial
		n.now = n.now.Add(100 * time.Millisecond)
		n.step("1", election.Event{Kind: election.Woke})
	}
	for _, remove := range []bool{true, false} {
		if err := n.cores["1"].AdmitChange(remove, "3", remove); err == nil || !strings.Contains(err.Error(), "try again once one leads") || !strings.Contains(err.Error(), "1 of 3 voters are reached") {
			t.Errorf("a change is admitted, or refused with %v", err)
		}
	}
}

// A removal that leaves too few live voters is refused; by force it is done, and no member
// leads until enough of the others are back. The last voter stays, by force too.
func TestARemovalByForce(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	one := n.cores["1"]
	delete(n.cores, "1")
	n.ids = ids("2,3")
	for _, id := range n.ids {
		n.step(id, election.Event{Kind: election.LinkDown, Peer: "1"})
	}
	if err := n.cores["2"].AdmitChange(true, "2", false); !errors.Is(err, election.ErrTooFew) || !strings.Contains(err.Error(), "1 of the other 2 are reached") {
		t.Errorf("it is admitted, or refused with %v", err)
	}
	n.step("3", election.Event{Kind: election.MemberRemoved, Peer: "2"})
	n.settle()
	n.run(3 * time.Second)
	if l := n.leader(); l != "3" {
		t.Fatalf("%s leads though nothing was forced", l)
	}
	if err := n.cores["3"].AdmitChange(true, "2", true); err != nil {
		t.Errorf("by force: %v", err)
	}
	n.step("2", election.Event{Kind: election.MemberRemoved, Peer: "2", On: true})
	n.settle()
	n.run(3 * time.Second)
	if v := n.cores["3"].View(); v.Defined() || n.halted["2"] != nil {
		t.Fatalf("%v leads, with one of two; member 2 has ended with %v", v, n.halted["2"])
	}
	n.cores["1"], n.ids = one, ids("1,2,3")
	n.start("1", n.ids...)
	n.settle()
	n.run(5 * time.Second)
	if !errors.Is(n.halted["2"], election.ErrRemoved) || n.leader() != "3" {
		t.Errorf("member 2 has ended with %v", n.halted["2"])
	}
	alone := newNetwork(t, "1")
	alone.run(time.Second)
	if err := alone.cores["1"].AdmitChange(true, "1", true); !errors.Is(err, election.ErrTooFew) {
		t.Errorf("the last voter may go: %v", err)
	}
}

// A member that restarts over and over, each time before it has written much, keeps a
// bounded log all the same.
func TestTheLogOfAMemberThatOftenRestartsIsBounded(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	longest := 0
	for range keepRecords {
		n.run(3 * time.Second)
		n.step(n.leader(), election.Event{Kind: election.Resigned}) // so that there is something to write
		n.run(time.Second)
		n.start("1", ids("1,2,3")...)
		n.settle()
		longest = max(longest, len(n.disks["1"]))
	}
	if longest > 2*keepRecords {
		t.Errorf("its log has held %d records, and is compacted when it has %d", longest, keepRecords)
	}
}

// A full disk that has no room for a second log stops no member: its log grows within the room that it
// has, and is compacted once there is room again.
func TestALogThatCannotBeCompactedGoesOn(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.full = "1"
	change := func() {
		n.step(n.leader(), election.Event{Kind: election.Resigned})
		n.run(4 * time.Second)
		if v := n.cores["1"].View(); !v.Defined() || n.cores["1"].disk.Failing() {
			t.Fatalf("with %d records member 1 follows %v, and its disk fails: %v", len(n.disks["1"]), v, n.cores["1"].disk.Failing())
		}
	}
	for len(n.disks["1"]) < 3*keepRecords {
		change()
	}
	n.start("1", ids("1,2,3")...) // all that it has written is read again
	n.settle()
	n.run(3 * time.Second)
	n.full = election.None
	for range keepRecords {
		change()
	}
	if left := len(n.disks["1"]); left > 2*keepRecords {
		t.Errorf("with room again its log has %d records", left)
	}
}

// A member with a disk that hangs keeps no answers for later: what a leader sends to it again and
// again would take its memory.
func TestAMemberKeepsNoAnswersForADiskThatHangs(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.hangs = "1"
	n.step("3", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "4"}, Address: "host-4:7400"}})
	n.run(time.Minute)
	c := n.cores["1"]
	if !c.disk.Hung() || c.View().Leader.ID != "3" {
		t.Fatalf("member 1 follows %v, and its disk hangs: %v", c.View(), c.disk.Hung())
	}
	raft := reflect.ValueOf(c.node).Elem().FieldByName("raft").Elem()
	if kept := raft.FieldByName("msgs").Len() + raft.FieldByName("msgsAfterAppend").Len(); kept > 30 {
		t.Errorf("it has kept %d answers in %d beats", kept, time.Minute/c.timing.Heartbeat)
	}
}

// Members that ask for votes at one moment have a majority refuse each of them, and do not
// ask at one moment again. A search draws nothing: there each has a pause of its own.
func TestMembersThatAskedInVainAskApart(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	asked := map[election.ID]bool{}
	n.heard = func(m election.Message) {
		if m.Kind == kindVote {
			asked[m.From] = true
		}
	}
	for _, id := range n.ids {
		c := n.cores[id]
		c.Still()
		c.patience, c.campaignAt = time.Time{}, begin.Add(c.t)
	}
	wait := n.cores["1"].t
	n.run(wait * 101 / 100)
	for _, id := range n.ids {
		if !asked[id] || n.cores[id].View().Defined() {
			t.Fatalf("member %s has asked: %v, and has %v for its leader", id, asked[id], n.cores[id].View())
		}
	}
	n.run(wait)
	if n.leader() != "1" {
		t.Errorf("%s leads, want the one that waits for the shortest time", n.leader())
	}
}

// How long a member's promises last is on disk before it gives one. A log of an earlier
// release does not hold it: here such a member starts, and its disk hangs.
func TestNothingIsPromisedBeforeItsLengthIsOnDisk(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	held := n.disks["1"]
	for i, r := range held {
		if r[0] != recordSelf {
			continue
		}
		s := self{}
		if err := encoding.Unmarshal(r[1:], &s); err != nil || s.Promise != n.cores["1"].t {
			t.Fatalf("record %d holds a promise of %v (%v), want T", i, s.Promise, err)
		}
		s.Promise = 0
		held[i] = record(recordSelf, encode(s))
	}
	acks := 0
	n.heard = func(m election.Message) {
		if m.From == "1" && m.Kind == election.Ack {
			acks++
		}
	}
	n.hangs = "1"
	n.start("1", n.ids...)
	n.settle()
	n.run(2 * time.Second)
	c := n.cores["1"]
	if acks > 0 || !c.busy() {
		t.Errorf("it has answered %d beats, and what it writes is %q", acks, c.records)
	}
	n.hangs, n.disks["1"] = "", append(n.disks["1"], c.records...)
	n.step("1", election.Event{Kind: election.Saved})
	n.settle()
	if s, err := load(n.disks["1"]); err != nil || s.self.Promise != c.t || acks == 0 {
		t.Errorf("its disk holds a promise of %v (%v), want %v; it has answered %d beats", s.self.Promise, err, c.t, acks)
	}
}

// After a compaction that was put off a member tests its disk: the driver reports a fault until a write succeeds,
// and in a quiet cluster no other may come.
func TestACompactionThatIsPutOffIsFollowedByAWrite(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.full = "1"
	for len(n.disks["1"]) < keepRecords || n.cores["1"].written != keepRecords/2 {
		n.step(n.leader(), election.Event{Kind: election.Resigned})
		n.run(500 * time.Millisecond)
	}
	written := len(n.disks["1"])
	n.run(time.Minute)
	if len(n.disks["1"]) == written {
		t.Errorf("nothing was written for a minute: written %d, leader %s", n.cores["1"].written, n.leader())
	}
}

// A leader has its next look for a better member in the step in which a user removes that member. It does not yield to it.
func TestYieldsToNoMemberInTheStepThatRemovesIt(t *testing.T) {
	n := newNetwork(t, "1", "2", "3", "4")
	n.step("4", election.Event{Kind: election.Health, On: false})
	n.settle()
	n.run(5 * time.Second)
	if n.leader() != "3" {
		t.Fatalf("member %s leads", n.leader())
	}
	c := n.cores["3"]
	n.step("4", election.Event{Kind: election.Health, On: true})
	c.setAside(c.peer("4"), election.Eligible)
	n.now = c.transferAt.Add(time.Millisecond)
	n.step("3", election.Event{Kind: election.MemberRemoved, Peer: "4"})
	if !c.leads() {
		t.Error("it yields to the member that it removes")
	}
	n.settle()
	n.run(2 * time.Second)
	if n.halted["4"] == nil || n.leader() != "3" {
		t.Errorf("member %s leads, and 4 has ended with %v", n.leader(), n.halted["4"])
	}
}
