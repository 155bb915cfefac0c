package quorum

import (
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

// receives has a member receive a message, and returns the kinds of what it sends then.
func (n *network) receives(m election.Message) (sent []election.MessageKind) {
	m.Election = "default"
	before := n.heard
	n.heard = func(m election.Message) { sent = append(sent, m.Kind) }
	n.step(m.To, election.Event{Kind: election.Received, Message: &m})
	n.heard = before
	return sent
}

// A heartbeat shows that the leader has counted more of this member's log than its disk holds. The
// member warns once a term, and neither acknowledges nor applies that.
func TestAMemberWhoseDiskHasGoneBackAcknowledgesNothing(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	leader, c := n.cores["3"], n.cores["1"]
	beat := election.Message{Kind: election.Beat, From: "3", To: "1", Token: leader.leadership(), Stamp: leader.stamp(), Data: leader.beatData(leader.peer("1"), c.lastIndex()+1)}
	until := c.patience
	n.now = n.now.Add(time.Millisecond)
	for turn := range 2 {
		if sent := n.receives(beat); len(sent) != 0 || c.patience != until {
			t.Errorf("it sends %v, and promises until %v, not %v", sent, c.patience, until)
		}
		if warned := n.warned["1"] != nil; warned != (turn == 0) {
			t.Errorf("heartbeat %d: warned %v", turn, warned)
		}
		delete(n.warned, "1")
	}
	beat.Data = leader.beatData(leader.peer("1"), c.lastIndex())
	if sent := n.receives(beat); len(sent) != 1 || sent[0] != election.Ack || n.warned["1"] != nil {
		t.Errorf("of a heartbeat within its log it sends %v, and warns of %v", sent, n.warned["1"])
	}
}

// While the cluster is paused, a member that knows that grants no pre-vote to a member that leadership is not
// kept for: it may not know of the pause yet. A vote proper is granted: a majority has let it ask.
func TestAPausedMemberLetsNoOtherAskForVotes(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	c := n.cores["1"]
	term, last := c.status().GetTerm(), c.lastIndex()
	n.step("1", election.Event{Kind: election.Pausing, Age: time.Minute})
	n.lost = true
	n.run(2 * time.Second) // its promise to 3 has ended
	if !c.patience.IsZero() || !c.pause.On(n.now) {
		t.Fatalf("it has promised until %v, and is paused: %v", c.patience, c.pause.On(n.now))
	}
	ask := func(kind election.MessageKind, from election.ID) bool {
		answered := false
		n.heard = func(m election.Message) {
			answered = answered || m.To == from && (m.Kind == kindPreVoteAnswer || m.Kind == kindVoteAnswer)
		}
		n.raftMessage(kind, from, "1", &pb.Message{Term: new(term + 1), Index: &last, LogTerm: &term})
		n.settle()
		return answered
	}
	if ask(kindPreVote, "2") {
		t.Error("it lets 2 ask for votes while 3 is to keep leadership")
	}
	if !ask(kindPreVote, "3") {
		t.Error("it does not let 3 ask for votes")
	}
	if !ask(kindVote, "2") {
		t.Error("it gives 2 no vote")
	}
}

// A leader that receives a heartbeat of its own term from another follows no member.
func TestALeaderFollowsNoOtherInItsTerm(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	c := n.cores["3"]
	token := election.Token{Epoch: c.term(), Leader: election.Rank{ID: "2"}}
	sent := n.receives(election.Message{Kind: election.Beat, From: "2", To: "3", Token: token, Stamp: 1, Data: varints(c.me.Number, n.cores["2"].me.Number, 0, flagInForce)})
	if len(sent) != 0 || !c.leads() || !c.patience.IsZero() {
		t.Errorf("it sends %v, %v leads, and it has promised until %v", sent, c.View(), c.patience)
	}
}

// What no honest member sends changes nothing: what a member has promised, which leader it follows, what it
// has counted as acknowledged, its list.
func TestWhatNoMemberSendsChangesNothing(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	n.lost, n.now = true, n.now.Add(time.Millisecond)
	n.step("3", election.Event{Kind: election.Woke})
	term, far := n.cores["3"].term(), uint64(election.MaxEpoch+1)
	numbers := map[election.ID]uint64{}
	for id, c := range n.cores {
		numbers[id] = c.me.Number
	}
	beat := func(to, from uint64, rest ...byte) []byte { return append(varints(to, from, 0, flagInForce), rest...) }
	raft := func(kind election.MessageKind, m *pb.Message) []byte {
		if kind != "" {
			m.Type = raftKinds[kind].Enum()
		}
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	epoch := func(e uint64) election.Token { return election.Token{Epoch: e, Leader: n.cores["3"].Self()} }
	garbage := []byte{0xff, 0xff}
	all := map[string]election.Message{
		"a heartbeat of three numbers":        {Kind: election.Beat, From: "3", To: "1", Token: epoch(term), Data: varints(numbers["1"], numbers["3"], 0)},
		"a heartbeat of another's number":     {Kind: election.Beat, From: "2", To: "1", Token: epoch(term + 1), Data: beat(numbers["1"], numbers["3"])},
		"a heartbeat without a term":          {Kind: election.Beat, From: "3", To: "1", Data: beat(numbers["1"], numbers["3"])},
		"a heartbeat far ahead":               {Kind: election.Beat, From: "3", To: "1", Token: epoch(term + 2*maxLeap), Data: beat(numbers["1"], numbers["3"])},
		"an acknowledgement of two numbers":   {Kind: election.Ack, From: "1", To: "3", Token: epoch(term), Stamp: 1, Data: varints(numbers["3"], numbers["1"])},
		"an acknowledgement of another":       {Kind: election.Ack, From: "1", To: "3", Token: epoch(term), Stamp: n.cores["3"].stamp(), Data: varints(numbers["3"], numbers["2"], 1)},
		"an acknowledgement without a stamp":  {Kind: election.Ack, From: "1", To: "3", Token: epoch(term), Stamp: -1, Data: varints(numbers["3"], numbers["1"], 1, uint64(time.Hour))},
		"an acknowledgement of the future":    {Kind: election.Ack, From: "1", To: "3", Token: epoch(term), Stamp: n.cores["3"].stamp() + int64(time.Hour), Data: varints(numbers["3"], numbers["1"], 1)},
		"a card that does not parse":          {Kind: kindCard, From: "2", To: "1", Data: garbage},
		"a card without a disk":               {Kind: kindCard, From: "2", To: "1", Data: encode(card{Number: numbers["2"]})},
		"a card of number 0":                  {Kind: kindCard, From: "2", To: "1", Data: encode(card{Disk: 5})},
		"a card of a number out of range":     {Kind: kindCard, From: "2", To: "1", Data: encode(card{Number: far, Disk: 5})},
		"a card of another's number":          {Kind: kindCard, From: "2", To: "1", Data: encode(card{Number: numbers["3"], Disk: 5})},
		"a card with another's removal":       {Kind: kindCard, From: "2", To: "1", Data: encode(card{Number: numbers["2"], Disk: n.cores["2"].me.Disk, Yours: n.cores["1"].me.Disk, Void: numbers["3"]})},
		"a change that does not parse":        {Kind: kindChange, From: "2", To: "3", Data: garbage},
		"a change of no member":               {Kind: kindChange, From: "2", To: "3", Data: encode(change{Remove: true})},
		"a change to an odd address":          {Kind: kindChange, From: "2", To: "3", Data: encode(change{ID: "4", Address: "host\n:1"})},
		"a change with an id of another kind": {Kind: kindChange, From: "2", To: "3", Data: encode(change{ID: "node", Address: "host-4:7400"})},
		"a vote request that does not parse":  {Kind: kindVote, From: "2", To: "1", Token: epoch(term + 1), Data: garbage},
		"a vote request of no type":           {Kind: kindVote, From: "2", To: "1", Token: epoch(term + 1), Data: raft("", &pb.Message{From: new(numbers["2"]), To: new(numbers["1"]), Term: new(term + 1)})},
		"a vote request of another type":      {Kind: kindVote, From: "2", To: "1", Token: epoch(term + 1), Data: raft(kindPreVote, &pb.Message{From: new(numbers["2"]), To: new(numbers["1"]), Term: new(term + 1)})},
		"a vote request for another's vote":   {Kind: kindVote, From: "2", To: "1", Token: epoch(term + 1), Data: raft(kindVote, &pb.Message{From: new(numbers["2"]), To: new(numbers["3"]), Term: new(term + 1)})},
		"a vote request in another's name":    {Kind: kindVote, From: "2", To: "1", Token: epoch(term + 1), Data: raft(kindVote, &pb.Message{From: new(numbers["3"]), To: new(numbers["1"]), Term: new(term + 1)})},
		"a vote request of another term":      {Kind: kindVote, From: "2", To: "1", Token: epoch(term), Data: raft(kindVote, &pb.Message{From: new(numbers["2"]), To: new(numbers["1"]), Term: new(term + 1)})},
		"a command to ask, of no leader":      {Kind: kindTimeoutNow, From: "2", To: "1", Token: epoch(term), Data: raft(kindTimeoutNow, &pb.Message{From: new(numbers["2"]), To: new(numbers["1"]), Term: &term})},
		"a command to ask, of another term":   {Kind: kindTimeoutNow, From: "3", To: "1", Token: epoch(term + 1), Data: raft(kindTimeoutNow, &pb.Message{From: new(numbers["3"]), To: new(numbers["1"]), Term: new(term + 1)})},
		"a commit index that does not parse":  {Kind: kindCommitted, From: "2", To: "1", Data: garbage},
		"a seat for a member that has one":    {Kind: kindSeat, From: "2", To: "1", Data: encode(seat{Number: 9, ID: "1", Disk: n.cores["1"].me.Disk})},
	}
	state := func(c *Core) string {
		s := fmt.Sprint(c.patience, c.promised, c.follows, c.until, c.view, c.campaignAt, c.status(), c.lastIndex(), c.disks, c.noted, c.wanted, c.me, c.roster.Seats)
		for _, p := range c.peers {
			s += fmt.Sprint(p.number, p.acked, p.promise, p.deferred, p.barred, p.voids)
		}
		return s
	}
	for what, m := range all {
		c := n.cores[m.To]
		before := state(c)
		if sent := n.receives(m); m.Kind == kindCard && len(sent) > 0 {
			t.Errorf("%s is answered by %v", what, sent)
		}
		if state(c) != before || n.halted[m.To] != nil {
			t.Errorf("%s changes\n%s\nto\n%s (%v)", what, before, state(c), n.halted[m.To])
		}
	}
}

// The bytes that are to hold the commitment of a leadership may be missing.
func TestAHeartbeatWithoutItsCommitmentIsOfALeaderWithoutAGuard(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	c, leader := n.cores["1"], n.cores["3"]
	m := &election.Message{From: "3", To: "1", Token: leader.leadership(), Data: varints(c.me.Number, leader.me.Number, 0, flagSworn)}
	if b, _, ok := c.readBeat(c.peer("3"), m); !ok || b.commitment != (attest.Commitment{}) {
		t.Errorf("%v, %v", b, ok)
	}
}

// A log may be due for another compaction before anything more was applied.
func TestALogIsCompactedAgainThoughNothingWasApplied(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	for range 2 {
		n.cores["1"].written = keepRecords + 1
		n.run(time.Second)
		if w := n.cores["1"].written; w > keepRecords || n.halted["1"] != nil {
			t.Fatalf("%d records are written, and it has ended: %v", w, n.halted["1"])
		}
	}
}

// A log may be due for compaction when a member was sent a snapshot of all that was applied.
func TestALogIsCompactedAfterASnapshotOfIt(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	c := n.cores["1"]
	if s, err := (snapshots{c.storage, c.replica}).Snapshot(); err != nil || s.GetMetadata().GetIndex() != c.applied {
		t.Fatal(s, err)
	}
	c.written = keepRecords + 1
	n.run(time.Second)
	if c.written > keepRecords || n.halted["1"] != nil {
		t.Fatalf("%d records are written, and it has ended: %v", c.written, n.halted["1"])
	}
}

// A voter that shows a number that is newer than the log here has another number in the log: its
// vote is not counted, and nothing fails for want of it.
func TestAVoterOfANewerNumberCountsForNothing(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	for _, id := range []election.ID{"1", "3"} {
		c, card := n.cores[id], encode(card{Number: 9, Disk: 5})
		n.receives(election.Message{Kind: kindCard, From: "2", To: id, Data: card})
		up, all := c.reached(0)
		if c.peer("2").number != 9 || up != 2 || all != 3 || !c.reachesMajority() {
			t.Errorf("member %s reaches %d of %d voters, and 2 has number %d", id, up, all, c.peer("2").number)
		}
	}
	n.lost = true
	n.step("3", election.Event{Kind: election.LinkDown, Peer: "1"})
	if c := n.cores["3"]; c.reachesMajority() || c.acknowledged() == 0 {
		t.Error("3 reaches a majority, which counts 2")
	}
}

// A follower keeps at most two requests for each member that there may be.
func TestRequestedChangesAreBounded(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	n.lost = true
	for i := range 3 * MaxMembers {
		n.step("1", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: election.ID(fmt.Sprint(10 + i))}, Address: "host:7400"}})
	}
	if got := len(n.cores["1"].wanted); got != 2*MaxMembers {
		t.Errorf("it keeps %d requests, want %d", got, 2*MaxMembers)
	}
}

// A process that takes no part pauses no cluster: a disk of before a recovery, whose card is the first
// message that carries the pause of its own cluster, a number that was removed, or a process that has
// not shown its card.
func TestAProcessThatTakesNoPartPausesNothing(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	n.lost = true
	c := n.cores["1"]
	its := func(m election.Message) bool {
		m.To, m.Pause = "1", &election.Pause{Version: 9, Left: time.Hour, Holder: m.From}
		n.receives(m)
		return c.pause.On(n.now)
	}
	c.roster.Next = 9 // a member 7 was removed
	if its(election.Message{Kind: kindCard, From: "2", Data: encode(card{Number: 7, Disk: 5})}) {
		t.Error("the card of a removed number pauses the cluster")
	}
	if its(election.Message{Kind: kindCard, From: "2", Data: encode(card{Number: n.cores["2"].me.Number, Disk: 5})}) || !c.peer("2").barred {
		t.Error("the card of another disk pauses the cluster")
	}
	if its(election.Message{Kind: kindCommitted, From: "2", Data: varints(1, 1)}) {
		t.Error("a barred member pauses the cluster")
	}
	n.run(2 * time.Second)
	n.step("1", election.Event{Kind: election.LinkUp, Rank: election.Rank{ID: "4"}, Incarnation: 1})
	if p := c.peer("4"); p == nil || its(election.Message{Kind: kindCommitted, From: "4", Data: varints(1, 1)}) {
		t.Errorf("a process without a card pauses the cluster: %v", p)
	}
	if !its(election.Message{Kind: kindCommitted, From: "3", Data: varints(1, 1)}) {
		t.Error("a member does not pause the cluster")
	}
}
