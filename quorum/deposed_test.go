package quorum

import (
	"bytes"
	"errors"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/core/attest"
)

// raftMessage has a member receive a message of raft's from another.
func (n *network) raftMessage(kind election.MessageKind, from, to election.ID, m *pb.Message) {
	n.t.Helper()
	m.Type = raftKinds[kind].Enum()
	m.From, m.To = &n.cores[from].me.Number, &n.cores[to].me.Number
	data, err := proto.Marshal(m)
	if err != nil {
		n.t.Fatal(err)
	}
	n.step(to, election.Event{Kind: election.Received, Message: &election.Message{Kind: kind, From: from, To: to, Election: "default", Token: election.Token{Epoch: m.GetTerm()}, Data: data}})
}

// A leader that is deposed by a higher term may still have work that runs, also while it hands over.
// Its lease counts on its own promise too: it votes for no other before that lease has ended.
func TestADeposedLeaderVotesForNobodyDuringItsLease(t *testing.T) {
	for _, drains := range []bool{false, true} {
		n := newNetwork(t, "1", "2", "3")
		n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
		c := n.cores["3"]
		if drains {
			n.step("3", election.Event{Kind: election.Working, On: true})
			n.step("3", election.Event{Kind: election.Resigned})
			n.settle()
		}
		until := c.Guard()
		if !until.After(n.now) {
			t.Fatalf("drains %v: its work may run until %v", drains, until)
		}
		votes := 0
		n.lost, n.heard = true, func(m election.Message) {
			if m.From == "3" && m.Kind == kindVoteAnswer {
				votes++
			}
		}
		term, last := c.term(), c.lastIndex()
		n.raftMessage(kindAppendAnswer, "2", "3", &pb.Message{Term: new(term + 1), Index: new(last), Reject: new(true)})
		n.settle()
		if c.View().Defined() {
			t.Fatalf("it leads in term %d, and another has spoken in term %d", term, term+1)
		}
		n.raftMessage(kindVote, "2", "3", &pb.Message{Term: new(term + 2), Index: new(last), LogTerm: new(term)})
		n.settle()
		if votes > 0 {
			t.Errorf("drains %v: it has voted %v before the end of its lease", drains, until.Sub(n.now))
		}
		n.now = until.Add(1)
		n.step("3", election.Event{Kind: election.Woke})
		n.settle()
		if votes != 1 {
			t.Errorf("drains %v: after its lease it has given %d votes, want 1", drains, votes)
		}
	}
}

// A former leader that dies, or its late command to ask for votes, ends no promise that a deposed leader
// gives itself.
func TestADeposedLeaderOwesNothingToItsFormerLeader(t *testing.T) {
	for what, happens := range map[string]func(n *network, term uint64){
		"its former leader has died": func(n *network, _ uint64) {
			n.step("2", election.Event{Kind: election.LinkDown, Peer: "3"})
			n.step("2", election.Event{Kind: election.DialFailed, Peer: "3", Refused: true})
		},
		"its former leader's command is late": func(n *network, term uint64) {
			n.raftMessage(kindTimeoutNow, "3", "2", &pb.Message{Term: &term})
		},
	} {
		n := newNetwork(t, "1", "2", "3")
		for _, c := range n.cores {
			c.algorithm.takeover = TakeoverRefused
		}
		n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
		former := n.cores["3"].term()
		n.step("3", election.Event{Kind: election.Resigned})
		n.settle()
		c := n.cores["2"]
		until := c.Guard()
		if n.leader() != "2" || !until.After(n.now) {
			t.Fatalf("%s leads, and its work may run until %v", n.leader(), until)
		}
		n.lost = true
		n.raftMessage(kindAppendAnswer, "1", "2", &pb.Message{Term: new(c.term() + 1), Index: new(c.lastIndex()), Reject: new(true)})
		n.settle()
		if c.View().Defined() || !c.patience.Equal(until) || c.Votes().PromisedTo != election.None {
			t.Errorf("%v leads, and it has promised itself and %q not to vote until %v, want %v", c.View(), c.Votes().PromisedTo, c.patience, until)
		}
		if happens(n, former); !c.patience.Equal(until) {
			t.Errorf("%s: it votes from %v on, and its lease ends at %v", what, c.patience, until)
		}
	}
}

// A snapshot can give a member on the list another number, and the link to the process with the earlier number stays. A heartbeat
// for the later number makes that process show its card, and it ends.
func TestAMemberWithAnotherNumberShowsItsCard(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	c := n.cores["3"]
	before := *c.roster.of("1")
	later := before
	later.Number, later.Disk = c.roster.Next, 99
	c.roster.drop(before)
	c.roster.put(later)
	c.reseat()
	n.run(2 * c.t)
	if !c.leads() || !errors.Is(n.halted["1"], election.ErrRemoved) {
		t.Errorf("it leads: %v; the process with the earlier number ends with %v", c.leads(), n.halted["1"])
	}
}

// The command of a former leader to campaign arrives late: the receiver has led since, and has resigned. It stays resigned.
func TestALateCommandCancelsNoResignation(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	former := n.cores["3"].term()
	n.step("3", election.Event{Kind: election.Resigned})
	n.settle()
	c := n.cores["2"]
	if n.leader() != "2" {
		t.Fatal(n.leader())
	}
	n.step("2", election.Event{Kind: election.Working, On: true})
	n.step("2", election.Event{Kind: election.Resigned})
	resigned := c.resigned
	n.raftMessage(kindTimeoutNow, "3", "2", &pb.Message{Term: &former})
	if c.resigned != resigned || resigned == 0 {
		t.Errorf("a late command of term %d: it has resigned in term %d, and before the command in %d", former, c.resigned, resigned)
	}
}

// sworn is a network of three with a leader whose guard has the secret.
func sworn(t *testing.T, takeover Takeover) (n *network, leader *Core, secret []byte) {
	n = newNetwork(t, "1", "2", "3")
	for _, c := range n.cores {
		c.algorithm.takeover = takeover
	}
	n.run(begin.Add(3 * n.cores["1"].t).Sub(n.now))
	leader, secret = n.cores["3"], bytes.Repeat([]byte{7}, attest.Size)
	commitment := attest.Of(secret)
	n.step("3", election.Event{Kind: election.Sworn, Token: leader.leadership(), Proof: commitment[:]})
	n.settle()
	return n, leader, secret
}

// The secret of a leader's guard ends its leadership for those that follow it, and no other does.
func TestASecretEndsALeadership(t *testing.T) {
	n, leader, secret := sworn(t, TakeoverAttested)
	for _, proof := range [][]byte{nil, secret[1:], bytes.Repeat([]byte{8}, attest.Size)} {
		n.step("1", election.Event{Kind: election.Attested, Proof: proof})
		if c := n.cores["1"]; c.patience.IsZero() || c.View() != leader.leadership() {
			t.Fatalf("%x ends the leadership", proof)
		}
	}
	n.lost = true
	n.step("3", election.Event{Kind: election.Attested, Proof: secret})
	if leader.View() != leader.leadership() {
		t.Error("a leader takes its own guard's secret")
	}
	n.step("1", election.Event{Kind: election.Attested, Proof: secret})
	if c := n.cores["1"]; !c.patience.IsZero() || c.View().Defined() {
		t.Errorf("it follows %v still", c.View())
	}
}

func TestASecretIsOfNoUseUnderAnotherTakeover(t *testing.T) {
	for _, takeover := range []Takeover{TakeoverLease, TakeoverRefused} {
		n, leader, secret := sworn(t, takeover)
		n.step("1", election.Event{Kind: election.Attested, Proof: secret})
		if c := n.cores["1"]; c.patience.IsZero() || c.View() != leader.leadership() {
			t.Errorf("takeover %s: a secret ends the leadership", takeover)
		}
	}
}

// A beat may still be on its way when its sender dies.
func TestABeatOfADeadLeaderIsNotFollowed(t *testing.T) {
	n, leader, secret := sworn(t, TakeoverAttested)
	n.step("1", election.Event{Kind: election.Attested, Proof: secret})
	c := n.cores["1"]
	n.step("1", election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Beat, From: "3", To: "1", Election: "default",
		Token: leader.leadership(), Stamp: leader.stamp(), Data: leader.beatData(leader.peer("1"), 0)}})
	if !c.patience.IsZero() || c.View().Defined() {
		t.Errorf("it follows %v again, until %v", c.View(), c.patience)
	}
}

// The leader outranked all others, and its connection may still be open.
func TestAVoterDoesNotWaitForADeadLeaderToStand(t *testing.T) {
	n, _, secret := sworn(t, TakeoverAttested)
	n.lost = true
	n.step("2", election.Event{Kind: election.Attested, Proof: secret})
	if state := n.cores["2"].status().RaftState; state != raft.StatePreCandidate {
		t.Errorf("it is a %v, and does not ask for votes", state)
	}
}

// The leader's last change has reached 1, and not 2. Then 1 does not wait for the turn of 2, which has an older log.
// It may receive the request of 2 before it has detected the end of the leadership, or after.
func TestAMemberDoesNotWaitForOneWithAnOlderLog(t *testing.T) {
	for name, order := range map[string][]election.ID{"it asks too early": {"2", "1"}, "it asks in time": {"1", "2"}} {
		t.Run(name, func(t *testing.T) {
			n, leader, secret := sworn(t, TakeoverAttested)
			n.step("3", election.Event{Kind: election.MemberAdded, Member: election.Member{Rank: election.Rank{ID: "4"}, Address: "host-4:7400"}})
			for len(n.queue) > 0 {
				next := n.queue[0]
				if n.queue = n.queue[1:]; next.at == "1" || next.at == "2" && next.ev.Kind != election.Received {
					n.step(next.at, next.ev)
				}
			}
			if n.cores["1"].lastIndex() <= n.cores["2"].lastIndex() {
				t.Fatalf("the log of 1 ends at %d, that of 2 at %d", n.cores["1"].lastIndex(), n.cores["2"].lastIndex())
			}
			delete(n.cores, "3")
			n.ids = ids("1,2")
			for _, id := range order {
				n.step(id, election.Event{Kind: election.Attested, Proof: secret})
				n.settle()
			}
			n.run(leader.t / 100)
			if led := n.leader(); led != "1" {
				t.Errorf("%q leads, want 1", led)
			}
		})
	}
}
