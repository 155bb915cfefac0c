package quorum

import (
	"testing"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// A candidate does not wait for its own vote to be on disk, but reports to no member that it is
// elected before that: here by the three others that may.
func TestVotesAreAskedForWhileOnesOwnIsWritten(t *testing.T) {
	n := newNetwork(t, "1", "2", "3", "4", "5")
	n.run(3 * time.Second)
	if n.leader() != "5" {
		t.Fatalf("%s leads", n.leader())
	}
	leader, next := n.cores["5"], n.cores["4"]
	sent := map[election.MessageKind]int{}
	n.hangs, n.heard = "4", func(m election.Message) {
		if m.From == "4" {
			sent[m.Kind]++
		}
	}
	raw, err := proto.Marshal(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), From: &leader.me.Number, To: &next.me.Number, Term: new(leader.term())})
	if err != nil {
		t.Fatal(err)
	}
	n.step("4", election.Event{Kind: election.Received, Message: &election.Message{Kind: kindTimeoutNow, From: "5", To: "4", Election: "default", Token: leader.leadership(), Data: raw}})
	n.settle()
	if sent[kindVote] != 4 {
		t.Errorf("it has asked for %d votes, want 4", sent[kindVote])
	}
	if st := next.status(); st.RaftState != raft.StateLeader || st.GetTerm() == next.hard.GetTerm() {
		t.Fatalf("it is %v in term %d, and has term %d on disk", st.RaftState, st.GetTerm(), next.hard.GetTerm())
	}
	if sent[election.Beat]+sent[kindAppend] > 0 {
		t.Errorf("it has sent %v, and its term is not on disk", sent)
	}
	n.hangs, n.disks["4"] = "", append(n.disks["4"], next.records...)
	n.step("4", election.Event{Kind: election.Saved})
	n.settle()
	if n.leader() != "4" {
		t.Errorf("%s leads", n.leader())
	}
}

// Who asked with entries that are not on disk, and lost them in a crash, could be elected
// afterwards by the votes that those had won.
func TestVotesAreAskedForWithALogThatIsOnDisk(t *testing.T) {
	c := newNetwork(t, "1", "2", "3").cores["1"]
	ask := []*pb.Message{{Type: pb.MsgVote.Enum()}}
	for _, ready := range []raft.Ready{
		{Messages: ask, Entries: []*pb.Entry{{Index: new(uint64(2))}}},
		{Messages: ask, Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(2))}}},
	} {
		if wait, early := c.sendEarly(ready); len(early) > 0 || len(wait) != 1 {
			t.Errorf("with %v it asks before that is on disk", ready)
		}
	}
	if _, early := c.sendEarly(raft.Ready{Messages: ask}); len(early) != 1 {
		t.Error("it waits for its own vote to be on disk")
	}
}

// A leader sends entries while it writes them, and its majority may have them first: their answers
// count, so that what is committed does not wait for the leader's disk and a round trip more.
func TestEntriesAreCommittedWhileTheLeaderWritesThem(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	leader := n.cores["3"]
	before := leader.status().GetCommit()
	n.hangs = "3"
	n.step("3", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "2"}, Address: "host-9:7400"}})
	n.settle()
	if at := leader.status().GetCommit(); !leader.busy() || at != before+1 {
		t.Errorf("the log is committed up to %d, want %d", at, before+1)
	}
}

// A leader's removal is not refused because the others only have not received, or written, its last entry yet.
func TestARemovalOfTheLeaderAwaitsItsLastEntry(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["3"]
	n.lost = true
	n.step("3", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "9"}, Address: "host-9:7400"}})
	n.settle()
	if err := c.AdmitChange(true, "3", false); err != nil || c.successor() != raft.None {
		t.Errorf("%v, and %d could follow", err, c.successor())
	}
}
