package quorum

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// A change of the members counts for a member once it knows that the change is committed,
// and that is said by the leader alone. A leader that has gone, or was the one removed, may
// have said it to some: the others count the majority of before, which may not be there any
// more, and nobody could be elected. So who takes in a change has that on disk first;
// members that know no leader tell each other how far the log is committed; and who was
// removed goes once more than half of those who vote now know it.

// kindCommitted is how members that know no leader tell how far the log is committed, and
// whether they stand.
const kindCommitted election.MessageKind = "committed"

// tellCommitted tells all how far the log is committed, if nobody leads whom they could
// have it from.
func (c *Core) tellCommitted() {
	if c.view.Defined() || c.term() != 0 || !c.Settled() {
		return
	}
	index := c.applied // raft may know of more, whose entries are still on their way to the disk
	term, err := c.storage.Term(index)
	if err != nil {
		return
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link && p.number != 0 && !p.barred {
			c.send(p, election.Message{Kind: kindCommitted, Eligibility: c.Standing().Said(), Data: varints(index, term)})
		}
	}
}

// committedBy takes in how far another knows the log to be committed. An entry of the same
// index and term is the same here, with all before it (Raft paper, 5.3).
func (c *Core) committedBy(p *peer, data []byte) {
	v, ok := readVarints(data, 2)
	st := c.status()
	if !ok || v[0] <= st.GetCommit() || v[0] > c.lastIndex() || st.RaftState == raft.StateLeader || st.Lead != raft.None {
		return
	}
	if term, err := c.storage.Term(v[0]); err != nil || term != v[1] {
		return
	}
	c.note("learns", p.rank.ID, election.Token{Epoch: v[1]}, fmt.Sprintf("that the log is committed up to %d", v[0]))
	c.followAgain(p, st.GetTerm(), v[0])
}

// followAgain has raft follow in its term, as if p led and the log were committed so far: it hears either from a leader
// alone, so that one is forgotten at once.
func (c *Core) followAgain(p *peer, term, commit uint64) {
	if c.stepRaft(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &p.number, To: &c.me.Number, Term: &term, Commit: &commit}) {
		c.forget()
	}
}

// removed reports whether this member is none any more by its own log.
func (c *Core) removed() bool {
	return c.node != nil && len(c.roster.Seats) > 0 && c.roster.of(c.cfg.Self.ID) == nil && c.applied > 1
}

// askWhoKnows has a member that was removed show its card: who knows of the removal answers
// that its number is void.
func (c *Core) askWhoKnows() {
	if !c.removed() {
		return
	}
	for i := range c.peers {
		if p := &c.peers[i]; p.link && !p.voids {
			c.showCard(p)
		}
	}
}

// departs ends this member once more than half of those who vote now know that it was
// removed: until then they may need its vote, or its word. Where the members have changed
// since, more than half of them knew: the next change is not proposed before.
func (c *Core) departs() {
	know, later, voters := 0, false, c.roster.conf.GetVoters()
	for i := range c.peers {
		if p := &c.peers[i]; p.voids {
			later = later || p.changed > c.roster.Changed
			if slices.Contains(voters, p.number) {
				know++
			}
		}
	}
	if later || 2*know > len(voters) {
		c.halt(fmt.Errorf("it was removed: %w", election.ErrRemoved))
	}
}
