package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// peer is another member.
type peer struct {
	number      uint64 // raft's; 0: not known yet
	rank        election.Rank
	address     string
	observer    bool
	incarnation uint64

	link    bool
	dialing bool
	since   time.Time // of the link
	redial  time.Time // when it is dialed again; zero: it is not
	backoff time.Duration
	heard   time.Time
	asked   time.Time // since when it owes an answer; zero: it owes none
	down    bool
	state   election.MemberState
	aside   election.Eligibility
	barred  bool      // nothing of it counts: its disk is another
	noted   bool      // it has noted this member's disk
	pullAt  time.Time // not before is it asked what members tell of themselves

	acked    int64       // of this term: the latest stamp that it has answered
	deferred *pb.Message // its request for a vote, which waits for the end of a promise
}

// maxBackoff bounds the pause between two dials.
const maxBackoff = time.Second

// seatPeers has a peer for every other member of the roster.
func (c *Core) seatPeers() {
	old := c.peers
	c.peers = make([]peer, 0, len(c.roster.Seats))
	for _, s := range c.roster.Seats {
		if s.ID == c.cfg.Self.ID {
			continue
		}
		p := peer{rank: election.Rank{ID: s.ID}}
		if i := slices.IndexFunc(old, func(p peer) bool { return p.rank.ID == s.ID }); i >= 0 {
			p = old[i]
			old = slices.Delete(old, i, i+1)
		}
		p.number, p.address, p.observer = s.Number, s.Address, s.Observer
		c.peers = append(c.peers, p)
	}
	slices.SortFunc(c.peers, func(a, b peer) int { return a.rank.ID.Compare(b.rank.ID) })
}

func (c *Core) peer(id election.ID) *peer {
	for i := range c.peers {
		if c.peers[i].rank.ID == id {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *Core) peerBy(number uint64) *peer {
	for i := range c.peers {
		if c.peers[i].number == number && number != 0 {
			return &c.peers[i]
		}
	}
	return nil
}

func (c *Core) setState(p *peer, s election.MemberState) {
	if p.state != s {
		p.state = s
		c.do(election.Action{Kind: election.Notify, Member: p.rank.ID, Status: s})
	}
}

func (c *Core) dial(p *peer) {
	p.redial = time.Time{}
	if !p.link && !p.dialing {
		p.dialing = true
		c.do(election.Action{Kind: election.Dial, To: p.rank.ID})
	}
}

func (c *Core) linkUp(rank election.Rank, incarnation uint64) {
	p := c.peer(rank.ID)
	if p == nil {
		return
	}
	if !p.link || p.incarnation != incarnation {
		p.since = c.now
	}
	p.rank, p.incarnation = rank, incarnation
	p.link, p.dialing, p.down, p.redial, p.backoff = true, false, false, time.Time{}, 0
	p.heard, p.asked = c.now, time.Time{}
	c.setState(p, election.StateUp)
	if !c.fresh && !(c.replace && c.busy()) {
		c.showCard(p)
	}
	c.sendMeta(p, c.metas.Own())
	if c.term() != 0 && !c.over {
		c.beat()
	}
}

// usable reports whether a link stands and is not dead: one on which nothing has come
// for T, though an answer is due, is given up and made anew.
func (c *Core) usable(p *peer) bool {
	if !p.link {
		return false
	}
	if p.asked.IsZero() || p.heard.After(p.asked) {
		p.asked = c.now
	}
	if c.now.Sub(p.asked) < c.t {
		return true
	}
	p.asked = time.Time{}
	c.hangUp(p)
	return false
}

// hangUp ends the link to a member that keeps silent, and dials it again.
func (c *Core) hangUp(p *peer) {
	p.link, p.dialing = false, false
	c.do(election.Action{Kind: election.Hangup, To: p.rank.ID})
	c.setState(p, election.StateUnreachable)
	c.unreachable(p)
	c.dial(p)
}

func (c *Core) linkDown(id election.ID) {
	p := c.peer(id)
	if p == nil {
		return
	}
	p.link, p.dialing = false, false
	c.unreachable(p)
	c.dial(p)
}

func (c *Core) unreachable(p *peer) {
	if c.node != nil && p.number != 0 {
		c.node.ReportUnreachable(p.number)
	}
}

func (c *Core) dialFailed(id election.ID, refused bool, why error) {
	p := c.peer(id)
	if p == nil {
		return
	}
	p.dialing = false
	if errors.Is(why, election.ErrRemoved) && c.node != nil && c.term() == 0 {
		c.halt(fmt.Errorf("%s says: %w", id, election.ErrRemoved))
		return
	}
	if p.link {
		return
	}
	if p.backoff = min(max(2*p.backoff, c.timing.Heartbeat/2), maxBackoff); p.backoff == 0 {
		p.backoff = maxBackoff
	}
	p.redial = c.now.Add(p.backoff/2 + c.between(p.backoff/2))
	switch {
	case refused:
		p.down = true
		c.setState(p, election.StateDown)
		c.crashed(p)
	case why == nil && c.now.Sub(p.heard) >= c.t:
		c.setState(p, election.StateUnreachable)
	}
}

// send sends a message to a member over a link that stands, or is being made.
func (c *Core) send(p *peer, m election.Message) {
	if !p.link && !p.dialing {
		if !p.redial.IsZero() {
			return // it could not be reached just now
		}
		p.dialing = true
	}
	m.From, m.To, m.Election, m.MetaDigest = c.cfg.Self.ID, p.rank.ID, c.cfg.Election, c.metas.Digest()
	c.do(election.Action{Kind: election.Send, To: p.rank.ID, Message: &m})
}

// Kinds of message of this algorithm, beside beat, ack and resign.
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

// raftKinds are raft's messages by their kind: all that is taken from others.
var raftKinds = map[election.MessageKind]pb.MessageType{
	kindPreVote: pb.MsgPreVote, kindPreVoteAnswer: pb.MsgPreVoteResp, kindVote: pb.MsgVote, kindVoteAnswer: pb.MsgVoteResp,
	kindAppend: pb.MsgApp, kindAppendAnswer: pb.MsgAppResp, kindSnapshot: pb.MsgSnap, kindTimeoutNow: pb.MsgTimeoutNow,
}

// Kinds are the kinds of message that the algorithm adds.
func (a *Algorithm) Kinds() []election.MessageKind {
	return []election.MessageKind{kindPreVote, kindPreVoteAnswer, kindVote, kindVoteAnswer, kindAppend, kindAppendAnswer, kindSnapshot, kindTimeoutNow, kindCard, kindChange, kindSeat}
}

func kindOf(t pb.MessageType) (election.MessageKind, bool) {
	for k, of := range raftKinds {
		if of == t {
			return k, true
		}
	}
	return "", false // heartbeats are beats and acks here
}

// post sends what raft wants to say.
func (c *Core) post(m *pb.Message) {
	kind, ok := kindOf(m.GetType())
	p := c.peerBy(m.GetTo())
	if !ok || p == nil {
		return
	}
	if (kind == kindVote || kind == kindPreVote) && p.link && !c.usable(p) {
		return
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

// receive takes a message in. What makes no sense is dropped.
func (c *Core) receive(m *election.Message) {
	p := c.peer(m.From)
	if p == nil || !c.started || c.node == nil && m.Kind != kindSeat || m.Election != c.cfg.Election || m.Token.Epoch > c.seen+maxLeap || m.Token.Epoch > election.MaxEpoch {
		return
	}
	p.heard, p.asked = c.now, time.Time{}
	c.seen = max(c.seen, m.Token.Epoch)
	if m.Kind == kindCard {
		c.cardFrom(p, m.Data)
		return
	}
	if m.Kind == kindSeat {
		c.seated(p, m)
		return
	}
	if p.barred || !c.me.Settled {
		return
	}
	c.learnNumber(p, m)
	c.compareMeta(p, m)
	switch m.Kind {
	case election.Beat:
		if b, commit, ok := c.readBeat(p, m); ok {
			p.aside = m.Eligibility
			c.beaten(p, b, commit)
		}
	case election.Ack:
		if from, _, ok := c.readAck(m); ok {
			c.acked(p, m, from)
		}
	case election.Resign:
		c.resignedBy(p, m)
	case kindChange:
		c.changeAsked(m)
	case election.Members:
		c.mergeMeta(m.Meta)
	case election.GetMembers:
		c.sendMeta(p, c.metas.List())
	default:
		c.receiveRaft(p, m)
	}
}

// maxLeap bounds how far one message may raise the term, so that no single one can use
// them all up.
const maxLeap = 1 << 32

// beatData is: to, from, commit and flags, as unsigned varints.
func (c *Core) beatData(p *peer, commit uint64) []byte {
	flags := uint64(0)
	if c.view.Epoch == c.term() || c.drains {
		flags = 1
	}
	return varints(p.number, c.me.Number, commit, flags)
}

func (c *Core) ackData(p *peer) []byte {
	return varints(p.number, c.me.Number, uint64(c.stamp()))
}

func varints(values ...uint64) []byte {
	b := make([]byte, 0, 16)
	for _, v := range values {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// readVarints reads n of them, and nothing else.
func readVarints(b []byte, n int) ([]uint64, bool) {
	values := make([]uint64, 0, 4)
	for range n {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return nil, false
		}
		values, b = append(values, v), b[size:]
	}
	return values, true // what follows is of a later version
}

func (c *Core) readBeat(p *peer, m *election.Message) (b beat, commit uint64, ok bool) {
	v, ok := readVarints(m.Data, 4)
	if !ok || v[0] != c.me.Number || v[1] != p.number || m.Token.Epoch == 0 {
		return b, 0, false
	}
	return beat{from: p.number, term: m.Token.Epoch, stamp: m.Stamp, inForce: v[3]&1 != 0}, v[2], true
}

func (c *Core) readAck(m *election.Message) (from uint64, clock int64, ok bool) {
	v, ok := readVarints(m.Data, 3)
	if !ok || v[0] != c.me.Number {
		return 0, 0, false
	}
	return v[1], int64(v[2]), true
}

// receiveRaft hands raft a message on which it cannot founder.
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
	switch want {
	case pb.MsgVote, pb.MsgPreVote:
		c.vote(p, msg)
	case pb.MsgTimeoutNow:
		if c.follows.from != p.number || c.follows.term != msg.GetTerm() {
			return
		}
		c.resigned, c.outlived = 0, false // it is chosen by name, or stands
		if !c.eligible() {
			return
		}
		c.release("the leader hands over to this member", election.CauseResigned)
		c.campaignAt = c.contestEnds()
		c.stepRaft(msg)
	default:
		c.stepRaft(msg)
	}
}

// stepRaft steps raft; it tells whether raft has taken the message, and still stands.
func (c *Core) stepRaft(m *pb.Message) (ok bool) {
	defer c.caught()
	if err := c.node.Step(m); err != nil {
		return false
	}
	c.turned()
	return true
}

// caught is deferred where raft takes in what comes from outside. That has been checked:
// should raft panic all the same, this member ends and nothing else.
func (c *Core) caught() {
	if r := recover(); r != nil {
		c.halt(fmt.Errorf("raft cannot go on with its log: %v: remove this member, and add it again with an empty data directory", r))
	}
}

func (c *Core) status() raft.BasicStatus { return c.node.BasicStatus() }

// lastIndex is of the last entry that is on disk. No other member has been told of one
// behind it, nor has this one acknowledged any.
func (c *Core) lastIndex() uint64 {
	last, _ := c.storage.LastIndex() // a MemoryStorage knows
	return last
}

// errUnsound says that no honest member would send that.
var errUnsound = errors.New("no member of this cluster would send that")

// check refuses what raft would founder on.
func (c *Core) check(m *pb.Message) error {
	if m.GetTerm() == 0 || m.GetTerm() > election.MaxEpoch || m.GetIndex() > election.MaxEpoch || m.GetCommit() > election.MaxEpoch || len(m.GetResponses()) > 0 {
		return errUnsound
	}
	switch m.GetType() {
	case pb.MsgApp:
		return checkEntries(m)
	case pb.MsgAppResp:
		if !m.GetReject() && m.GetTerm() == c.status().GetTerm() && m.GetIndex() > c.lastIndex() || m.GetRejectHint() > election.MaxEpoch {
			return errUnsound
		}
	case pb.MsgSnap:
		meta := m.GetSnapshot().GetMetadata()
		if meta.GetIndex() == 0 || meta.GetIndex() > election.MaxEpoch || meta.GetTerm() == 0 || meta.GetTerm() > m.GetTerm() {
			return errUnsound
		}
		_, err := decodeRoster(m.GetSnapshot().GetData(), meta.GetConfState())
		return err
	default:
		if len(m.GetEntries()) > 0 || m.GetSnapshot() != nil {
			return errUnsound
		}
	}
	return nil
}

// checkEntries wants them in a row, and of terms that do not fall.
func checkEntries(m *pb.Message) error {
	index, term := m.GetIndex(), m.GetLogTerm()
	if (index == 0) != (term == 0) || term > m.GetTerm() {
		return errUnsound
	}
	for _, e := range m.GetEntries() {
		index++
		if e.GetIndex() != index || e.GetTerm() < term || e.GetTerm() == 0 || e.GetTerm() > m.GetTerm() || checkEntry(e) != nil {
			return errUnsound
		}
		term = e.GetTerm()
	}
	return nil
}

// learnNumber: a newcomer, whose log is still empty, has the numbers of others from
// their beats.
func (c *Core) learnNumber(p *peer, m *election.Message) {
	if len(c.roster.Seats) > 0 || m.Kind != election.Beat {
		return
	}
	if v, ok := readVarints(m.Data, 4); ok && v[0] == c.me.Number && v[1] != 0 && v[1] <= election.MaxEpoch && c.peerBy(v[1]) == nil {
		p.number = v[1]
	}
}
