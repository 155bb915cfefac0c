package quorum

import (
	"testing"
	"time"

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
