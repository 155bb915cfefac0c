package quorum

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
)

// stages are how far a cluster of three has come when a message arrives.
var stages = []struct {
	name  string
	after func(n *network)
}{
	{"led", func(n *network) { n.run(3 * time.Second) }},
	{"starting", func(n *network) {}},
	{"leaderless", func(n *network) {
		n.run(3 * time.Second)
		n.lost = true
		n.run(5 * time.Second)
	}},
	{"handing over", func(n *network) {
		n.run(3 * time.Second)
		n.lost = true
		n.step("3", election.Event{Kind: election.Resigned})
	}},
	{"changing members", func(n *network) {
		n.run(3 * time.Second)
		n.step("2", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "4"}, Address: "host-4:7400"}})
		n.settle()
		n.lost = true
		n.step("3", election.Event{Kind: election.MemberRemoved, Peer: "4"})
	}},
}

// mayEnd reports whether a member may end by a message of this kind: its disk is another,
// somebody has asked for its removal, or the leader's log, which is law, has removed it
// or cannot be.
func mayEnd(kind election.MessageKind, why error) bool {
	switch kind {
	case kindCard:
		return errors.Is(why, election.ErrRemoved) || strings.Contains(why.Error(), "by another disk") || strings.Contains(why.Error(), "lists of members differ")
	case kindChange:
		return errors.Is(why, election.ErrRemoved)
	case kindAppend, kindSnapshot:
		return errors.Is(why, election.ErrRemoved) || strings.Contains(why.Error(), "cannot go on with its log")
	}
	return false
}

// guests is added to a stage for a sender that is on no list.
const guests = 130 // a multiple of their number

// FuzzReceive has a member of a cluster send another whatever it likes. No member may
// panic, and none may end, but by what mayEnd allows; two never lead at one time.
func FuzzReceive(f *testing.F) {
	kinds := slices.Concat(New().Kinds(), []election.MessageKind{election.Beat, election.Ack, election.Resign})
	seen := map[election.MessageKind]int{}
	for at := range stages {
		n := newNetwork(f, "1", "2", "3")
		n.heard = func(m election.Message) {
			if k := slices.Index(kinds, m.Kind); k >= 0 && seen[m.Kind] < 12 {
				seen[m.Kind]++
				f.Add(byte(at), byte(k), m.To[0], m.From[0], m.Token.Epoch, m.Stamp, m.Data, true)
				f.Add(byte(at+guests), byte(k), m.To[0], m.From[0], m.Token.Epoch+1, m.Stamp, m.Data, true)
			}
		}
		stages[at].after(n)
	}
	for kind, data := range unheard(f) {
		f.Add(byte(0), byte(slices.Index(kinds, kind)), byte('1'), byte('3'), uint64(2), int64(0), data, true)
	}
	f.Fuzz(func(t *testing.T, stage, kind, to, from byte, epoch uint64, stamp int64, data []byte, fits bool) {
		n := newNetwork(t, "1", "2", "3")
		stages[int(stage)%len(stages)].after(n)
		n.lost = false
		to, from = '1'+to%3, '1'+from%3
		if to == from {
			from = '1' + (from+1)%3
		}
		if stage >= guests { // another is let in that is on no list, and has shown who it is
			from = '4'
			at := election.ID(string(rune(to)))
			n.step(at, election.Event{Kind: election.LinkUp, Rank: election.Rank{ID: "4"}, Incarnation: 1})
			n.step(at, election.Event{Kind: election.Received, Message: &election.Message{Kind: kindCard, Election: "default", From: "4", To: at, Data: encode(card{Number: 4, Disk: 4})}})
		}
		m := &election.Message{Kind: kinds[int(kind)%len(kinds)], Election: "default", From: election.ID(string(rune(from))), To: election.ID(string(rune(to))),
			Token: election.Token{Epoch: epoch, Leader: election.Rank{ID: election.ID(string(rune(from)))}}, Stamp: stamp, Claimant: uint64(stamp), Data: data}
		if fits {
			m.Data = fitted(m)
		}
		for range 2 {
			n.step(m.To, election.Event{Kind: election.Received, Message: m})
			n.settle()
			n.run(700 * time.Millisecond)
		}
		for id, why := range n.halted {
			if !mayEnd(m.Kind, why) {
				t.Fatalf("member %s ends: %v", id, why)
			}
		}
		leaders := 0
		for _, c := range n.cores {
			if until, leads := c.Lease(); leads && n.now.Before(until) {
				leaders++
			}
		}
		if leaders > 1 {
			t.Fatal("two lead")
		}
	})
}

// unheard are messages that those clusters do not need, and one that no member would send.
func unheard(f *testing.F) map[election.MessageKind][]byte {
	n := newNetwork(f, "1", "2", "3")
	n.run(3 * time.Second)
	leader := n.cores["3"]
	snap, err := snapshots{leader.storage, leader.replica}.Snapshot()
	if err != nil || leader.View().Epoch != 2 {
		f.Fatal(leader.View(), err)
	}
	snap.Metadata.Index, snap.Metadata.Term = new(uint64(20)), new(uint64(2))
	message, _ := proto.Marshal(&pb.Message{Type: pb.MsgSnap.Enum(), Snapshot: snap})
	return map[election.MessageKind][]byte{
		kindSnapshot: message,
		kindSeat:     encode(*leader.roster.by(1)),
		kindAppend:   badChange(3, 1, leader.lastIndex(), 2),
	}
}

// fitted is the data of a message of raft's with what has to fit for it to be looked at.
func fitted(m *election.Message) []byte {
	var msg pb.Message
	kind, ok := raftKinds[m.Kind]
	if !ok || proto.Unmarshal(m.Data, &msg) != nil {
		return m.Data
	}
	msg.Type, msg.From, msg.To, msg.Term = kind.Enum(), new(uint64(m.From[0]-'0')), new(uint64(m.To[0]-'0')), &m.Token.Epoch
	data, err := proto.Marshal(&msg)
	if err != nil {
		return m.Data
	}
	return data
}

// badChange is an append of one entry that leaves a configuration that there is none of.
func badChange(from, to, index, term uint64) []byte {
	change, _ := proto.Marshal(&pb.ConfChangeV2{})
	data, _ := proto.Marshal(&pb.Message{Type: pb.MsgApp.Enum(), From: &from, To: &to, Term: &term, Index: &index, LogTerm: &term, Commit: new(index + 1),
		Entries: []*pb.Entry{{Type: pb.EntryConfChangeV2.Enum(), Index: new(index + 1), Term: &term, Data: change}}})
	return data
}

// What a leader has put into the log, and no member can apply, ends a member and no more.
func TestAnEntryThatCannotBeAppliedEndsTheMemberAlone(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	if l := n.leader(); l != "3" {
		t.Fatalf("%s leads", l)
	}
	epoch, last := n.cores["3"].View().Epoch, n.cores["3"].lastIndex()
	n.step("1", election.Event{Kind: election.Received, Message: &election.Message{Kind: kindAppend, Election: "default", From: "3", To: "1",
		Token: election.Token{Epoch: epoch}, Data: badChange(3, 1, last, epoch)}})
	n.settle()
	if why := n.halted["1"]; why == nil || !strings.Contains(why.Error(), "raft cannot go on with its log: can't leave a non-joint config") {
		t.Fatalf("member 1 has ended: %v", why)
	}
	if n.cause != election.CauseStopped {
		t.Errorf("its leader is lost as %s: no member was removed", n.cause)
	}
	n.run(3 * time.Second)
	if l := n.leader(); l != "3" || len(n.halted) != 1 {
		t.Errorf("%s leads, and %v have ended", l, n.halted)
	}
}

// A message of raft's that raft would panic on, or that no honest member sends, is refused.
func TestAnUnsoundMessageIsRefused(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["3"]
	term, last, far := c.term(), c.lastIndex(), uint64(election.MaxEpoch+1)
	entry := func(index, term uint64) []*pb.Entry { return []*pb.Entry{{Index: &index, Term: &term}} }
	held, err := snapshots{c.storage, c.replica}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	snapshot := func(index, term uint64) *pb.Snapshot {
		return &pb.Snapshot{Data: held.GetData(), Metadata: &pb.SnapshotMetadata{ConfState: held.GetMetadata().GetConfState(), Index: &index, Term: &term}}
	}
	app, response, snap, vote := pb.MsgApp.Enum(), pb.MsgAppResp.Enum(), pb.MsgSnap.Enum(), pb.MsgVote.Enum()
	if err := c.check(&pb.Message{Type: app, Term: &term, Index: &last, LogTerm: &term, Entries: entry(last+1, term)}); err != nil {
		t.Fatalf("a sound append is refused: %v", err)
	}
	if err := c.check(&pb.Message{Type: snap, Term: &term, Snapshot: snapshot(1, term)}); err != nil {
		t.Fatalf("a sound snapshot is refused: %v", err)
	}
	for what, m := range map[string]*pb.Message{
		"no term":                            {Type: vote},
		"a term out of range":                {Type: vote, Term: &far},
		"an index out of range":              {Type: vote, Term: &term, Index: &far},
		"a commit index out of range":        {Type: vote, Term: &term, Commit: &far},
		"responses within":                   {Type: vote, Term: &term, Responses: []*pb.Message{{}}},
		"a vote with entries":                {Type: vote, Term: &term, Entries: entry(1, 1)},
		"a vote with a snapshot":             {Type: vote, Term: &term, Snapshot: snapshot(1, 1)},
		"an answer beyond this log":          {Type: response, Term: &term, Index: new(last + 1)},
		"a hint out of range":                {Type: response, Term: &term, Reject: new(true), RejectHint: &far},
		"a snapshot of nothing":              {Type: snap, Term: &term, Snapshot: snapshot(0, term)},
		"a snapshot out of range":            {Type: snap, Term: &term, Snapshot: snapshot(far, term)},
		"a snapshot without a term":          {Type: snap, Term: &term, Snapshot: snapshot(1, 0)},
		"a snapshot of a later term":         {Type: snap, Term: &term, Snapshot: snapshot(1, term+1)},
		"a snapshot without a roster":        {Type: snap, Term: &term, Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &last, Term: &term}}},
		"an append behind a later term":      {Type: app, Term: &term, Index: &last, LogTerm: new(term + 1)},
		"an append behind an index, no term": {Type: app, Term: &term, Index: &last},
		"an entry that leaves one out":       {Type: app, Term: &term, Index: &last, LogTerm: &term, Entries: entry(last+2, term)},
		"an entry of an earlier term":        {Type: app, Term: &term, Index: &last, LogTerm: &term, Entries: entry(last+1, term-1)},
		"an entry of a later term":           {Type: app, Term: &term, Index: &last, LogTerm: &term, Entries: entry(last+1, term+1)},
		"an entry without a term":            {Type: app, Term: &term, Entries: entry(1, 0)},
	} {
		if err := c.check(m); err == nil {
			t.Errorf("%s is taken in", what)
		}
	}
}

// The longest wait that a member may state in an acknowledgement is bounded: three times it is still a
// duration.
func TestAPromiseThatAnotherStatesIsBounded(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["3"]
	if n.leader() != "3" || c.Earlier() != 0 {
		t.Fatalf("%s leads, and waits for holders by %v", n.leader(), c.Earlier())
	}
	p := c.peer("1")
	for stated, want := range map[uint64]time.Duration{1: 0, uint64(c.t) + 1: c.t + 1, 1 << 63: maxPromise, math.MaxUint64: maxPromise} {
		data := binary.AppendUvarint(varints(c.me.Number, p.number, 1), stated)
		n.step("3", election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Ack, From: "1", To: "3", Election: "default",
			Token: c.leadership(), Stamp: c.stamp(), Data: data}})
		if got := c.Earlier(); got != want || 3*got < 0 {
			t.Errorf("stated as %d it is %v, want %v", stated, got, want)
		}
	}
}

// Two members that bar each other, or with disks that hang or are slow while each notes the other's, show
// each other a few cards, not one for each that arrives.
func TestCardsAreNotAnsweredWithoutEnd(t *testing.T) {
	for name, spoil := range map[string]func(c *Core, other uint64){
		"each has another disk than the other knows": func(c *Core, other uint64) { c.disks[other]++ },
		"both disks hang": func(c *Core, other uint64) {
			c.noted = append(c.noted, other)
			c.submit([][]byte{{recordDisk}}, false)
			c.disk.Hang()
		},
		"both disks are slow": func(c *Core, other uint64) {
			c.noted = append(c.noted, other)
			c.submit([][]byte{{recordDisk}}, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, "1", "2", "3")
			n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
			cards := 0
			n.heard = func(m election.Message) {
				if m.Kind == kindCard {
					cards++
				}
			}
			for id, other := range map[election.ID]election.ID{"1": "2", "2": "1"} {
				spoil(n.cores[id], n.cores[id].peer(other).number)
			}
			for id, other := range map[election.ID]election.ID{"1": "2", "2": "1"} {
				n.step(id, election.Event{Kind: election.LinkDown, Peer: other})
			}
			n.settle()
			if cards == 0 || cards > 24 {
				t.Errorf("they have sent %d cards", cards)
			}
		})
	}
}

// A search takes two states for one if their forms are equal. A member that has answered all the cards
// that it may does not do the same as a member that has not.
func TestTheFormCountsTheAnsweredCards(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	c := n.cores["1"]
	other := c.peer("2").number
	c.noted = append(c.noted, other)
	c.submit([][]byte{{recordDisk}}, false)
	question := &election.Message{Kind: kindCard, From: "2", To: "1", Election: "default", Data: encode(card{Number: other, Disk: c.diskOf(other)})}
	answered := map[string]bool{} // by form
	for range 2 * mostAnswers {
		form, cards := string(c.AppendForm(nil, n.now)), 0
		for _, a := range c.Step(n.now, election.Event{Kind: election.Received, Message: question}) {
			if a.Kind == election.Send && a.Message.Kind == kindCard {
				cards++
			}
		}
		if before, known := answered[form]; known && before != (cards > 0) {
			t.Fatal("of two states with the same form, one answers a card and the other does not")
		}
		answered[form] = cards > 0
	}
	if len(answered) > mostAnswers+1 {
		t.Errorf("%d forms, though after %d answers no card is answered", len(answered), mostAnswers)
	}
}

// Two leaders have the same log, and one has sent another member that all of it is committed. Once that
// member answers, only the other leader sends it.
func TestTheFormHasWhatIsKnownToBeCommitted(t *testing.T) {
	forms, sent := map[string]bool{}, map[bool]int{}
	for _, early := range []bool{true, false} {
		n := newNetwork(t, "1", "2", "3")
		n.run(3 * time.Second)
		c := n.cores["3"]
		n.lost = true
		n.step("3", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "4"}, Address: "host-4:7400"}})
		n.step("3", election.Event{Kind: election.LinkDown, Peer: "1"}) // then raft sends one message at a time
		n.settle()
		receive := func(m *election.Message) {
			m.Election, m.To = "default", "3"
			n.step("3", election.Event{Kind: election.Received, Message: m})
			n.settle()
		}
		answers := func(from election.ID) {
			m := &pb.Message{Type: pb.MsgAppResp.Enum(), From: &c.peer(from).number, To: &c.me.Number, Term: new(c.term()), Index: new(c.lastIndex())}
			data, _ := proto.Marshal(m)
			receive(&election.Message{Kind: kindAppendAnswer, From: from, Token: c.leadership(), Data: data})
		}
		acknowledges := func(from election.ID) {
			receive(&election.Message{Kind: election.Ack, From: from, Token: c.leadership(), Stamp: c.stamp(), Data: varints(c.me.Number, c.peer(from).number, 1)})
		}
		if early {
			answers("2")
		}
		acknowledges("1")
		if !early {
			answers("2")
		}
		forms[string(c.AppendForm(nil, n.now))] = true
		n.heard = func(m election.Message) {
			if m.Kind == kindAppend && m.To == "1" {
				sent[early]++
			}
		}
		answers("1")
	}
	if sent[true] == sent[false] {
		t.Fatalf("both send %d messages: this shows nothing", sent[true])
	}
	if len(forms) != 2 {
		t.Error("both have the same form, and do not do the same")
	}
}

// While a member compacts its log, it sends its card to a member that connects. The latter may have received
// the card of another disk under this id, and ignores this disk until it receives its card.
func TestACardIsShownDuringACompaction(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	one, two := n.cores["1"], n.cores["2"]
	n.step("2", election.Event{Kind: election.Received, Message: &election.Message{Kind: kindCard, From: "1", To: "2", Election: "default",
		Data: encode(card{Number: one.me.Number, Disk: one.me.Disk + 1})}})
	if !two.peer("1").barred {
		t.Fatal("a process with another disk is not ignored")
	}
	n.step("1", election.Event{Kind: election.LinkDown, Peer: "2"})
	n.step("2", election.Event{Kind: election.LinkDown, Peer: "1"})
	n.hangs = "1"
	one.out = nil
	one.compact()
	n.settle()
	n.hangs = election.None
	n.step("1", election.Event{Kind: election.Saved})
	n.settle()
	if two.peer("1").barred {
		t.Error("member 2 ignores member 1, which has its disk")
	}
}

// A member of the first start shows no card before its disk has its number: it would have another disk after a
// loss of power, and the members that noted the first would ignore it.
func TestNoCardNamesADiskThatIsNotWritten(t *testing.T) {
	n := newNetwork(t)
	n.ids = ids("1,2,3")
	n.hangs = "1"
	n.start("1", n.ids...)
	n.heard = func(m election.Message) {
		if m.Kind == kindCard && m.From == "1" {
			t.Errorf("member 1 shows its card to %s, and has written nothing", m.To)
		}
	}
	for range 2 { // the first is noted, and the second answered
		n.step("1", election.Event{Kind: election.LinkUp, Rank: election.Rank{ID: "2"}, Incarnation: 1})
		n.step("1", election.Event{Kind: election.Received, Message: &election.Message{Kind: kindCard, From: "2", To: "1", Election: "default",
			Data: encode(card{Number: 2, Disk: 72})}})
	}
}
