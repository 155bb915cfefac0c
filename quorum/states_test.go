package quorum

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/batuta-dev/batuta/election"
)

// states gives each member's state as a member publishes it.
func (n *network) states(at election.ID) map[election.ID]election.MemberState {
	states := map[election.ID]election.MemberState{}
	for _, v := range n.cores[at].Members() {
		states[v.ID] = v.State
	}
	return states
}

// without runs the rest without a member, to which nothing arrives.
func (n *network) without(id election.ID, rest ...election.ID) {
	delete(n.cores, id)
	n.ids = rest
}

// Heartbeats carry the states when they have changed, and until they are acknowledged.
func TestHeartbeatsCarryChangedStatesOnly(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	reported, beats := map[election.ID]int{}, 0
	n.heard = func(m election.Message) {
		if m.Kind == election.Beat {
			beats++
		}
		if m.Kind == election.Beat && (m.States != nil || m.Version != 0) {
			reported[m.To]++
		}
	}
	n.run(2 * time.Second)
	if len(reported) > 0 || beats < 10 {
		t.Errorf("of %d heartbeats without a change there were reports for %v", beats, reported)
	}
	for _, v := range n.cores["2"].Members() {
		if v.State != election.StateUp || v.Epoch != n.cores["3"].term() {
			t.Errorf("2 publishes %+v", v)
		}
	}
	n.without("1", "2", "3")
	n.run(2 * n.cores["3"].t)
	if got := n.states("2")["1"]; got != election.StateUnreachable || reported["2"] != 1 {
		t.Errorf("2 publishes 1 as %q, after %d reports", got, reported["2"])
	}
	n.lost = true // an answer to a heartbeat is lost with it
	n.cores["3"].states.Changed()
	n.run(2 * n.cores["3"].timing.Heartbeat)
	n.lost = false
	n.run(time.Second)
	if reported["2"] < 3 || reported["2"] > 5 || n.cores["3"].peer("2").reported != n.cores["3"].states.Version() {
		t.Errorf("after a loss it was reported %d times", reported["2"])
	}
}

// A follower that has no report any more, as its process is new, receives it again.
func TestARestartedFollowerReceivesTheReport(t *testing.T) {
	n := newNetwork(t, "1", "2", "3", "4")
	n.run(3 * time.Second)
	n.without("1", "2", "3", "4")
	n.run(2 * n.cores["4"].t)
	n.start("2", ids("1,2,3,4")...)
	n.settle()
	n.run(n.cores["4"].t)
	if got := n.states("2"); got["1"] != election.StateUnreachable || got["3"] != election.StateUp {
		t.Errorf("2 publishes %v", got)
	}
}

// While a leader reports a member's state, what a follower observes itself does not count. That ends
// with its promise to that leader.
func TestALeadersReportIsPublishedWhileItIsFollowed(t *testing.T) {
	_, c := newPart()
	leader, other := c.peer("3"), c.peer("2")
	beat := func(version uint64, reports ...election.MemberReport) {
		c.takeReport(leader, &election.Message{Version: version, States: reports})
	}
	c.observe(other, election.StateUp)
	beat(0, election.MemberReport{ID: "2", State: election.StateDown}) // none of an earlier version has these
	beat(3, election.MemberReport{ID: "1", State: election.StateDown}, election.MemberReport{ID: "3", State: election.StateDown}, election.MemberReport{ID: "9", State: election.StateUp},
		election.MemberReport{ID: "2"}) // not reached yet
	beat(4, election.MemberReport{ID: "2", State: "of a later version"})
	if other.state != election.StateUp || leader.state != election.StateUnknown || c.statesOf != 4 {
		t.Errorf("2 is %q, the leader %q, the version %d", other.state, leader.state, c.statesOf)
	}
	c.observe(other, election.StateUnreachable)
	beat(5, election.MemberReport{ID: "2", State: election.StateUp, Epoch: 7})
	c.observe(other, election.StateUnreachable)
	if other.state != election.StateUp || c.statesOf != 5 {
		t.Errorf("2 is %q, the version %d", other.state, c.statesOf)
	}
	c.seatPeers()
	if leader, other = c.peer("3"), c.peer("2"); c.statesOf != 0 {
		t.Error("with another list of members it does not ask for the report again")
	}
	beat(5, election.MemberReport{ID: "2", State: election.StateDown})
	c.dropReport()
	if other.state != election.StateDown || c.statesOf != 0 {
		t.Errorf("without a leader 2 is %q, the version %d", other.state, c.statesOf)
	}
	c.observe(other, election.StateUp)
	if other.state != election.StateUp {
		t.Errorf("2 is %q, though it was received", other.state)
	}
}

// A member with an idle connection is up again, without a leader, when a message arrives from it.
func TestAMessageRefutesTheLastReport(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["1"]
	c.setState(c.peer("2"), election.StateUnreachable)
	c.release(election.CauseSilent)
	if n.states("1")["2"] != election.StateUnreachable {
		t.Error("the end of a promise shows that a member runs")
	}
	n.step("1", election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Ping, From: "2", To: "1", Election: "default"}})
	if n.states("1")["2"] != election.StateUp {
		t.Error("a message does not show it")
	}
}

// A new leader is up for its followers from its first heartbeat, whatever the last leader reported.
func TestANewLeaderIsUp(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["1"]
	c.takeReport(c.peer("3"), &election.Message{Version: 1 << 20, States: []election.MemberReport{{ID: "2", State: election.StateUnreachable}}})
	c.beaten(c.peer("2"), &election.Message{}, beat{term: c.status().GetTerm() + 1, from: c.peer("2").number}, 0)
	if c.follows.from != c.peer("2").number {
		t.Fatalf("1 follows %d, want 2", c.follows.from)
	}
	if got := n.states("1")["2"]; got != election.StateUp {
		t.Errorf("1 follows 2, and publishes it as %q", got)
	}
}

// A leader reports a member's eligibility in whatever message that was reported to it.
func TestALeaderReportsEachEligibility(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	c := n.cores["3"]
	version := c.states.Version()
	n.step("3", election.Event{Kind: election.Received, Message: &election.Message{Kind: kindCommitted, From: "1", To: "3", Election: "default", Eligibility: election.IneligibleUnhealthy}})
	if got := c.peer("1").aside; got != election.IneligibleUnhealthy || c.states.Version() == version {
		t.Errorf("1 is %q, and the report is that of before: version %d", got, version)
	}
}

// A member that led before publishes the epoch of the member that leads now.
func TestAFormerLeaderPublishesTheEpochOfTheNext(t *testing.T) {
	n := newNetwork(t, "1", "2", "3")
	n.run(3 * time.Second)
	n.without("3", "1", "2")
	n.run(4 * n.cores["2"].t)
	n.ids = ids("1,2,3")
	n.start("3", n.ids...)
	n.run(8 * time.Second)
	if n.leader() != "3" || n.cores["2"].peer("3").acked == 0 {
		t.Fatalf("%s leads, and 2 has led it: %v", n.leader(), n.cores["2"].peer("3").acked > 0)
	}
	for _, v := range n.cores["2"].Members() {
		if v.Epoch != n.cores["3"].term() {
			t.Errorf("2 publishes %s at epoch %d, want %d", v.ID, v.Epoch, n.cores["3"].term())
		}
	}
}

// A member that starts warns of an even number of voters, unless its log changes that number.
func TestAStartWarnsOfTheVotersThatVoteNow(t *testing.T) {
	n := newNetwork(t, "1", "2")
	c := n.cores["1"]
	for _, changes := range []bool{false, true} {
		if changes {
			last, _ := c.storage.LastIndex()
			if err := c.storage.Append([]*pb.Entry{{Type: pb.EntryConfChangeV2.Enum(), Index: new(last + 1), Term: new(c.status().GetTerm())}}); err != nil {
				t.Fatal(err)
			}
		}
		n.disks["1"] = c.all()
		delete(n.warned, "1")
		n.start("1", n.ids...)
		if (n.warned["1"] == nil) != changes {
			t.Errorf("with a change in the log %v: it warns of %v", changes, n.warned["1"])
		}
	}
}
