package quorum

import (
	"encoding/binary"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
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

func kindOf(t pb.MessageType) (election.MessageKind, bool) {
	for k, of := range raftKinds {
		if of == t {
			return k, true
		}
	}
	return "", false // heartbeats are sent as beats and acks
}

// post sends a message of raft.
func (c *Core) post(m *pb.Message) {
	kind, ok := kindOf(m.GetType())
	p := c.peerBy(m.GetTo())
	if !ok || p == nil {
		return
	}
	if kind == kindVote || kind == kindPreVote {
		if p.request = m; p.link && !c.usable(p) {
			return
		}
	}
	data, err := proto.Marshal(m)
	if err != nil || len(data) > election.MaxData {
		return
	}
	c.send(p, election.Message{Kind: kind, Token: election.Token{Epoch: m.GetTerm()}, Data: data})
	if m.GetType() == pb.MsgSnap {
		c.node.ReportSnapshot(p.number, raft.SnapshotFinish)
	}
}

// receive handles a message. It drops what is invalid.
func (c *Core) receive(m *election.Message) {
	p := c.peer(m.From)
	if p == nil || !c.started || m.Election != c.cfg.Election || m.Token.Epoch > c.seen+maxLeap || m.Token.Epoch > election.MaxEpoch {
		return
	}
	p.heard, p.asked, p.mute, p.backoff = c.now, time.Time{}, false, 0
	c.seen = max(c.seen, m.Token.Epoch)
	c.pause.Receive(c.now, m.Pause)
	switch {
	case m.Kind == kindSeat:
		c.seated(p, m)
		return
	case m.Kind == kindCard && c.node != nil:
		c.cardFrom(p, m.Data)
		return
	case p.barred || c.metaFrom(p, m) || !c.Settled():
		return
	}
	c.learnNumber(p, m)
	if p.guest && p.number == 0 {
		return // it has not identified itself
	}
	switch m.Kind {
	case election.Beat:
		if b, commit, ok := c.readBeat(p, m); ok {
			p.aside = m.Eligibility
			c.beaten(p, b, commit)
			c.compare(p, b.stamp)
		} else {
			c.showCard(p) // it has a different number for this member, which may be void
		}
	case election.Ack:
		if from, clock, promise, ok := c.readAck(m); ok {
			c.acked(p, m, from, promise)
			c.compare(p, clock)
		}
	case election.Resign:
		c.resignedBy(p, m)
	case kindCommitted:
		p.aside = p.aside.Hears(m.Eligibility)
		c.committedBy(p, m.Data)
	case kindChange:
		if !p.guest {
			c.changeAsked(m)
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

// beatData returns to, from, commit and flags as unsigned varints, followed by the commitment if
// the leadership has any.
func (c *Core) beatData(p *peer, commit uint64) []byte {
	flags, sworn := uint64(0), c.Sworn(c.term())
	if c.view.Epoch == c.term() || c.drains {
		flags = flagInForce
	}
	if sworn == (attest.Commitment{}) {
		return varints(p.number, c.me.Number, commit, flags)
	}
	return append(varints(p.number, c.me.Number, commit, flags|flagSworn), sworn[:]...)
}

// ackData returns to, from and this member's own time, and the promise of an earlier process while
// that is longer than T.
func (c *Core) ackData(p *peer) []byte {
	b := varints(p.number, c.me.Number, uint64(c.stamp()))
	if c.me.Promise > c.t {
		b = binary.AppendUvarint(b, uint64(c.me.Promise))
	}
	return b
}

func varints(values ...uint64) []byte {
	b := make([]byte, 0, 16)
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// readVarints reads the first n varints; ok is false if b has fewer.
func readVarints(b []byte, n int) ([]uint64, bool) {
	values := make([]uint64, 0, 4)
	for range n {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, false
		}
		values, b = append(values, v), b[size:]
	}
	return values, true // the rest is of a later version
}

func (c *Core) readBeat(p *peer, m *election.Message) (b beat, commit uint64, ok bool) {
	v, ok := readVarints(m.Data, 4)
	if !ok || v[0] != c.me.Number || v[1] != p.number || v[1] == 0 || m.Token.Epoch == 0 {
		return b, 0, false
	}
	rank := p.rank
	if m.Token.Leader.ID == p.rank.ID {
		rank = m.Token.Leader
	}
	b = beat{from: p.number, rank: rank, term: m.Token.Epoch, stamp: m.Stamp, inForce: v[3]&flagInForce != 0}
	if v[3]&flagSworn != 0 && len(m.Data) > attest.Size {
		b.commitment = attest.Commitment(m.Data[len(m.Data)-attest.Size:])
	}
	return b, v[2], true
}

func (c *Core) readAck(m *election.Message) (from uint64, clock int64, promise time.Duration, ok bool) {
	v, ok := readVarints(m.Data, 3)
	if !ok || v[0] != c.me.Number {
		return 0, 0, 0, false
	}
	if long, ok := readVarints(m.Data, 4); ok {
		promise = time.Duration(min(long[3], uint64(maxPromise)))
	}
	return v[1], int64(v[2]), promise, true
}

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
	switch want {
	case pb.MsgVote, pb.MsgPreVote:
		c.vote(p, msg)
	case pb.MsgTimeoutNow:
		if c.follows.from != p.number || c.follows.term != msg.GetTerm() {
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
		c.stepRaft(msg)
	default:
		c.stepRaft(msg)
	}
}

// learnNumber takes peers' numbers from their heartbeats while a newcomer's log is still empty.
func (c *Core) learnNumber(p *peer, m *election.Message) {
	if len(c.roster.Seats) > 0 || m.Kind != election.Beat {
		return
	}
	if v, ok := readVarints(m.Data, 4); ok && v[0] == c.me.Number && v[1] != 0 && v[1] <= election.MaxEpoch && c.peerBy(v[1]) == nil {
		p.number = v[1]
	}
}
