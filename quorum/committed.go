package quorum

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// A change of the members takes effect on a member once that member learns that it is committed,
// and only the leader sends that. A leader that died or was removed may have sent it to some
// members only. The rest would still count the old majority, which may be gone, and could not
// elect. Therefore a member has a change on disk before it applies it, members without a leader
// send each other their commit index, and a removed member ends once more than half of the present
// voters have received the removal.

// kindCommitted carries the commit index and the eligibility of a member that knows no leader.
const kindCommitted election.MessageKind = "committed"

// tellCommitted sends the commit index to all peers if no leader could send it to them.
func (c *Core) tellCommitted() {
	if c.view.Defined() || c.term() != 0 || !c.Settled() {
		return
	}
	index := c.applied // raft may have a higher index, with entries still on their way to the disk
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

// committedBy handles a peer's commit index. An entry of the same index and term is the same here,
// with all entries before it (Raft paper, 5.3).
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

// followAgain makes raft follow in its term, as if p led and the log were committed that far. Raft
// accepts either only from a leader, so it forgets that leader at once.
func (c *Core) followAgain(p *peer, term, commit uint64) {
	if c.stepRaft(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: &p.number, To: &c.me.Number, Term: &term, Commit: &commit}) {
		c.forget()
	}
}

// removed reports whether this member's own log has removed it.
func (c *Core) removed() bool {
	return c.node != nil && len(c.roster.Seats) > 0 && c.roster.of(c.cfg.Self.ID) == nil && c.applied > 1
}

// askWhoKnows makes a removed member send its card: a peer that applied the removal answers that
// the number is void.
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

// departs ends this member once more than half of the present voters have applied its removal:
// until then they may need its vote or its commit index. If the members have changed again since,
// more than half had applied it: the next change is not proposed earlier.
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
