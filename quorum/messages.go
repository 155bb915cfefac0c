package quorum

import (
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// Kinds of message of this algorithm, besides beat, ack and resign.
const (
	kindPreVote       election.MessageKind = "pre-vote"
	kindPreVoteAnswer election.MessageKind = "pre-vote-answer"
	kindVote          election.MessageKind = "vote"
	kindVoteAnswer    election.MessageKind = "vote-answer"
	kindAppend        election.MessageKind = "append"
	kindAppendAnswer  election.MessageKind = "append-answer"
	kindSnapshot      election.MessageKind = "snapshot"
	kindTimeoutNow    election.MessageKind = "timeout-now"
)

// raftKinds maps kinds to raft's messages: raft receives no other messages from peers.
var raftKinds = map[election.MessageKind]pb.MessageType{
	kindPreVote: pb.MsgPreVote, kindPreVoteAnswer: pb.MsgPreVoteResp, kindVote: pb.MsgVote, kindVoteAnswer: pb.MsgVoteResp,
	kindAppend: pb.MsgApp, kindAppendAnswer: pb.MsgAppResp, kindSnapshot: pb.MsgSnap, kindTimeoutNow: pb.MsgTimeoutNow,
}

// Kinds returns the kinds of message that the algorithm adds.
func (a *Algorithm) Kinds() []election.MessageKind {
	return []election.MessageKind{kindPreVote, kindPreVoteAnswer, kindVote, kindVoteAnswer, kindAppend, kindAppendAnswer, kindSnapshot, kindTimeoutNow, kindCommitted, kindCard, kindChange, kindSeat}
}

// receive handles a message. It drops what is invalid. Members exchange cards once on each connection, and a member that
// begins by asking others to admit it has connections before it starts.
func (c *Core) receive(m *election.Message) {
	p := c.peer(m.From)
	if p == nil || !c.started && m.Kind != kindCard || m.Election != c.cfg.Election || m.Token.Epoch > c.seen+maxLeap || m.Token.Epoch > election.MaxEpoch {
		return
	}
	p.heard, p.asked, p.mute, p.backoff = c.now, time.Time{}, false, 0
	c.seen = max(c.seen, m.Token.Epoch)
	if p.link && !p.guest {
		c.observe(p, election.StateUp) // the last leader may not have reached it
	}
	switch {
	case m.Kind == kindSeat:
		c.seated(p, m)
		return
	case m.Kind == kindCard && c.node != nil:
		if err := c.cardFrom(p, m); err != nil {
			c.halt(err)
		}
		return
	case p.barred || c.metaFrom(p, m) || !c.Settled():
		return
	}
	c.learnNumber(p, m)
	if p.guest && p.number == 0 {
		return // it has not identified itself
	}
	c.pause.Receive(c.now, m.Pause)
	switch m.Kind {
	case election.Beat:
		if b, commit, ok := c.readBeat(p, m); ok {
			c.setAside(p, m.Eligibility)
			c.beaten(p, m, b, commit)
			c.compare(p, b.stamp)
		} else {
			c.showCard(p) // it has a different number for this member, which may be void
		}
	case election.Ack:
		if from, clock, promise, ok := c.readAck(m); ok {
			c.ackFrom(p, m, from, promise)
			c.compare(p, clock)
		}
	case election.Resign:
		c.resignedBy(p, m)
	case kindCommitted:
		c.setAside(p, p.aside.Hears(m.Eligibility))
		c.committedBy(p, m.Data)
	case kindChange:
		if !p.guest {
			c.handOver(c.changeAsked(m))
		}
	default:
		c.receiveRaft(p, m)
	}
}

// maxLeap bounds how far a message may raise the term, so that no single message can exhaust the
// terms.
const maxLeap = 1 << 32

// Flags of a beat.
const (
	flagInForce = 1 << iota
	flagSworn   // its last bytes are the commitment of this leadership
)

// maxPromise bounds the promise that a peer may state: T is no longer, even with times of a day.
const maxPromise = 3 * 24 * time.Hour

// answeredFromDisk are the messages that raft answers only after it has saved something.
var answeredFromDisk = []pb.MessageType{pb.MsgApp, pb.MsgSnap, pb.MsgVote, pb.MsgPreVote}

// receiveRaft passes raft a message that cannot make it panic.
func (c *Core) receiveRaft(p *peer, m *election.Message) {
	want, ok := raftKinds[m.Kind]
	if !ok {
		return
	}
	msg := &pb.Message{}
	if proto.Unmarshal(m.Data, msg) != nil || msg.Type == nil || msg.GetType() != want || msg.GetFrom() != p.number || msg.GetTo() != c.me.Number ||
		msg.GetTerm() != m.Token.Epoch || c.check(msg) != nil {
		return
	}
	if c.disk.Unusable() && slices.Contains(answeredFromDisk, want) {
		return // its answers would queue for the disk, with a new answer for each retry
	}
	if want == pb.MsgSnap && c.busy() { // raft takes over its members before those that are being written
		return // the leader sends it again
	}
	switch want {
	case pb.MsgVote, pb.MsgPreVote:
		c.vote(p, msg)
	case pb.MsgTimeoutNow:
		if c.follows.from != p.number || c.follows.term != msg.GetTerm() || c.status().GetTerm() != msg.GetTerm() {
			return
		}
		c.resigned, c.outlived = 0, false // it was chosen by name, or is a candidate
		if !c.eligible() {
			return
		}
		c.release(election.CauseResigned)
		c.campaignAt = c.contestEnds()
		if c.status().RaftState == raft.StatePreCandidate { // it asks already, and raft would ignore the message
			c.followAgain(p, msg.GetTerm(), 0)
		}
		if c.stepRaft(msg); !c.standsInRaft() {
			c.askLater()
		}
	default:
		if (want == pb.MsgVoteResp || want == pb.MsgPreVoteResp) && !msg.GetReject() {
			p.granted = msg.GetTerm()
		}
		c.stepRaft(msg)
	}
}

// A change of the members takes effect on a member once that member learns that it is committed,
// and only the leader sends that. A leader that died or was removed may have sent it to some
// members only. The rest would still count the old majority, which may be gone, and could not
// elect. Therefore a member has a change on disk before it applies it, members without a leader
// send each other their commit index, and a removed member ends once more than half of the present
// voters have received the removal.

// kindCommitted carries the commit index and the eligibility of a member that knows no leader.
const kindCommitted election.MessageKind = "committed"

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

func (c *Core) linkUp(rank election.Rank, incarnation uint64) {
	p := c.peer(rank.ID)
	if p == nil {
		p = c.visit(rank)
	}
	if p == nil {
		return
	}
	if !p.link || p.incarnation != incarnation {
		p.since = c.now
	}
	if p.incarnation != incarnation {
		p.pace = pace{} // its stamps count from its start
	}
	p.rank, p.incarnation = rank, incarnation
	c.rerank()
	p.link, p.mute, p.dialing, p.down, p.redial = true, true, false, false, time.Time{}
	p.heard, p.asked, p.answers = c.now, time.Time{}, 0
	if p.guest {
		return // it shows its card first
	}
	c.observe(p, election.StateUp)
	c.showCard(p)
	c.greetMeta(p)
	if c.serves() {
		c.sendBeats()
	}
	if m := c.requested(p); m != nil {
		c.post(m) // it, or its answer, may be lost with an earlier connection
	}
}

func (c *Core) dialFailed(id election.ID, refused bool, why error) {
	p := c.peer(id)
	if p == nil {
		return
	}
	p.dialing = false
	if p.link {
		return
	}
	c.delayRedial(p)
	detour := p.detour
	p.detour = p.elsewhere != "" && !detour
	switch {
	case detour: // it may still be where the log has it
	case refused:
		p.down = true
		c.observe(p, election.StateDown)
		c.crashed(p, c.algorithm.takeover == TakeoverRefused && p.elsewhere == "") // otherwise it may live there
	case (why == nil || why == election.ErrForeign) && c.now.Sub(p.heard) >= c.t:
		c.observe(p, election.StateUnreachable)
	}
}
