package quorum

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// A member that knows no leader takes another's word for how far the log is committed, where
// it has the very entry.
func TestWhatIsCommittedIsTakenOfTheSameEntryAlone(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.heard = func(m election.Message) { n.lost = n.lost || m.Kind == kindAppendAnswer }
	n.step("3", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "4"}, Address: "host-4:7400"}})
	n.settle()
	n.run(3 * time.Second)
	c := n.cores["1"]
	last, committed := c.lastIndex(), c.status().GetCommit()
	term, err := c.storage.Term(last)
	if err != nil || last != committed+1 || c.View().Defined() {
		t.Fatalf("it has entries up to %d (%v), knows of %d that they are committed, and follows %v", last, err, committed, c.View())
	}
	for _, told := range []struct {
		index, term, want uint64
	}{{last, term + 1, committed}, {last + 1, term, committed}, {committed, term, committed}, {last, term, last}} {
		c.committedBy(c.peer("2"), varints(told.index, told.term))
		if got := c.status().GetCommit(); got != told.want {
			t.Errorf("told of entry %d of term %d, it takes the log for committed up to %d, want %d", told.index, told.term, got, told.want)
		}
		if st := c.status(); st.Lead != 0 {
			t.Errorf("it takes %d, which told it, for the leader", st.Lead)
		}
	}
	c.committedBy(c.peer("2"), []byte{0xff}) // no pair of numbers
}

// A member that is writing a committed entry in the place of one that never was reports how far
// its disk goes: another that has the former would take it for committed.
func TestWhatIsToldOfTheLogIsOnDisk(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["1"]
	last, term, told := c.lastIndex(), c.status().GetTerm(), 0
	n.lost, n.heard = true, func(m election.Message) {
		if v, ok := readVarints(m.Data, 2); m.From == "1" && m.Kind == kindCommitted {
			if told++; !ok || v[0] != last || v[1] != term {
				t.Errorf("it tells of %v that it is committed, and has entry %d of term %d on disk", v, last, term)
			}
		}
	}
	appends := func(from election.ID, term, commit uint64) {
		t.Helper()
		m := &pb.Message{Type: pb.MsgApp.Enum(), From: &n.cores[from].me.Number, To: &c.me.Number, Term: &term, Index: &last, LogTerm: new(c.hard.GetTerm()), Commit: &commit,
			Entries: []*pb.Entry{{Index: new(last + 1), Term: &term}}}
		raw, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		n.step("1", election.Event{Kind: election.Received, Message: &election.Message{Kind: kindAppend, From: from, To: "1", Election: "default",
			Token: election.Token{Epoch: term}, Data: raw}})
		n.settle()
		if st := c.status(); st.GetTerm() != term || st.GetCommit() != commit {
			t.Fatalf("it has come to term %d, and knows of %d that they are committed", st.GetTerm(), st.GetCommit())
		}
	}
	appends("3", term, last)
	if c.lastIndex() != last+1 {
		t.Fatal("it has not written what is not committed")
	}
	n.hangs = "1"
	appends("2", term+1, last+1)
	n.run(3 * time.Second)
	if told == 0 {
		t.Error("it has told nothing")
	}
}
