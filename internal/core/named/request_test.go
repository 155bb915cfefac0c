package named

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

func TestPreferWeightsAndSeats(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("heavy", Candidacy{Weight: 10}, c.ids...)
	c.names(20)
	c.campaign("mine", Candidacy{Prefer: true}, "2")
	c.campaign("mine", Candidacy{}, "1", "3")
	c.run(2 * time.Second)
	shares := c.shares(22)
	for id, n := range shares {
		if _, has := c.members[id].leads["heavy"]; has && n > 8 {
			t.Errorf("%s leads the heavy one and %d more", id, n-1)
		}
	}
	if _, leads := c.members["2"].leads["mine"]; !leads {
		t.Error("2 is preferred for mine, and does not lead it")
	}
	c.campaign("pool", Candidacy{Seats: 2}, c.ids...)
	c.run(time.Second)
	holders := 0
	for _, id := range c.ids {
		if _, has := c.members[id].leads["pool"]; has {
			holders++
		}
	}
	if holders != 2 {
		t.Errorf("%d hold one of 2 seats", holders)
	}
}

func TestTransfer(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	var name string
	for name = range c.members["2"].leads {
		break
	}
	for _, test := range []struct {
		by    election.ID
		r     Request
		wants string
	}{
		{"1", Request{Do: DoTransfer, Name: name, Member: "1"}, ""},
		{"3", Request{Do: DoTransfer, Name: name, Member: "1"}, ""}, // it has it
		{"1", Request{Do: DoTransfer, Name: "nothing", Member: "1"}, "no election"},
		{"3", Request{Do: DoTransfer, Name: name, Member: "7"}, "no member"},
		{"2", Request{Do: "dance"}, "does not know how to dance"},
	} {
		m := c.members[test.by]
		m.replies = nil
		_, actions := m.c.Request(c.now, test.r)
		m.do(actions)
		c.run(time.Second)
		if len(m.replies) != 1 || (m.replies[0].Error == "") != (test.wants == "") || !strings.Contains(m.replies[0].Error, test.wants) {
			t.Errorf("%+v: %+v", test.r, m.replies)
		}
	}
	if _, leads := c.members["1"].leads[name]; !leads {
		t.Error("it was not transferred")
	}
	c.run(5 * time.Second)
	c.shares(9)
}

func TestDrain(t *testing.T) {
	c := newCluster(t, 4)
	c.leadAll(1, "4")
	c.names(40)
	c.campaign("alone", Candidacy{}, "1")
	c.run(time.Second)
	ask := func(by election.ID, r Request) string {
		m := c.members[by]
		m.replies = nil
		_, actions := m.c.Request(c.now, r)
		m.do(actions)
		c.run(2 * time.Second)
		if len(m.replies) != 1 {
			t.Fatalf("%+v: %+v", r, m.replies)
		}
		return m.replies[0].Error
	}
	if got := ask("2", Request{Do: DoDrain, Member: "1"}); !strings.Contains(got, "only member 1 could lead alone:") {
		t.Errorf("draining the last candidate: %q", got)
	}
	if got := ask("2", Request{Do: DoDrain, Member: "1", Force: true}); got != "" {
		t.Errorf("with force: %q", got)
	}
	if shares := c.shares(40); shares["1"] != 0 {
		t.Errorf("drained it leads %d", shares["1"])
	}
	c.crash("4") // the next coordinator keeps it away, too
	c.leadAll(2, "3")
	c.run(3 * time.Second)
	if shares := c.shares(40); shares["1"] != 0 {
		t.Errorf("under another coordinator it leads %d", shares["1"])
	}
	if got := ask("1", Request{Do: DoUndrain, Member: "1"}); got != "" {
		t.Error(got)
	}
	if shares := c.shares(41); !even(map[election.ID]int{"1": shares["1"], "2": shares["2"], "3": shares["3"]}) {
		t.Errorf("shares %v", shares)
	}
}

// One of two may be drained while the other leads, too: what that one leads has no further
// candidate and needs none.
func TestDrainOneOfTwo(t *testing.T) {
	c := newLedCluster(t, 2, "2", 10)
	if shares := c.shares(10); !even(shares) {
		t.Fatalf("shares %v", shares)
	}
	m := c.members["1"]
	_, actions := m.c.Request(c.now, Request{Do: DoDrain, Member: "2"})
	m.do(actions)
	c.run(2 * time.Second)
	if len(m.replies) != 1 || m.replies[0].Error != "" {
		t.Errorf("%+v", m.replies)
	}
	if shares := c.shares(10); shares["2"] != 0 {
		t.Errorf("drained it leads %d", shares["2"])
	}
}

// A drain does not wait for the limit of hand-overs, which is for shares. A tenth of a heartbeat
// passes between two lots of those; within the time of two lots all eight have moved.
func TestADrainMovesAllAtOnce(t *testing.T) {
	const names = 2 * MaxHandovers * 8
	c := newLedCluster(t, 2, "2", names)
	if shares := c.shares(names); !even(shares) {
		t.Fatalf("shares %v", shares)
	}
	ask := func(do string) {
		m := c.members["2"]
		_, actions := m.c.Request(c.now, Request{Do: do, Member: "1"})
		m.do(actions)
		c.run(2 * beatTime / 10)
	}
	ask(DoDrain)
	if shares := c.shares(names); shares["1"] != 0 {
		t.Errorf("drained it leads %d", shares["1"])
	}
	c.run(time.Second)
	c.moved()
	ask(DoUndrain)
	if n := c.moved(); n == 0 || n > 2*MaxHandovers {
		t.Errorf("%d have moved for shares within the time of two lots, at most %d do", n, 2*MaxHandovers)
	}
}

// A heavy election counts for as many as it weighs: its leader gets few beside it.
func TestWeightsCount(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("heavy", Candidacy{Weight: 10}, c.ids...)
	c.run(time.Second)
	c.names(20)
	c.run(2 * time.Second)
	for id, n := range c.shares(21) {
		if _, has := c.members[id].leads["heavy"]; has && n > 4 {
			t.Errorf("%s leads the heavy one and %d of 20 more", id, n-1)
		}
	}
}

// What was transferred stays where it is, whatever the shares; other names are moved for them.
func TestWhatWasTransferredStays(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	var names []string
	for name := range c.members["2"].leads {
		names = append(names, name)
	}
	for _, name := range names {
		_, actions := c.members["3"].c.Request(c.now, Request{Do: DoTransfer, Name: name, Member: "1"})
		c.members["3"].do(actions)
	}
	c.run(5 * time.Second)
	for _, name := range names {
		if _, leads := c.members["1"].leads[name]; !leads {
			t.Errorf("%s was transferred to 1, which does not lead it", name)
		}
	}
	if shares := c.shares(9); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}

// What only the leader can do is done by it, whichever member is asked, and the reply leaves before.
func TestTheLeaderIsAskedByAny(t *testing.T) {
	for _, tt := range []struct {
		by, down election.ID
		r        Request
		why      Refusal
		says     string
	}{
		{"1", "", Request{Do: DoResign}, 0, ""},
		{"1", "", Request{Do: DoResign, Member: "3", Within: time.Second}, 0, ""},
		{"3", "", Request{Do: DoResign}, 0, ""},
		{"2", "", Request{Do: DoHandOver, Member: "1", Within: time.Second}, 0, ""},
		{"2", "", Request{Do: DoResign, Member: "1"}, RefusedNotLeading, "not the leader"},
		{"2", "", Request{Do: DoHandOver, Member: "7"}, RefusedNotMember, "not a member"},
		{"2", "1", Request{Do: DoHandOver, Member: "1"}, RefusedUnfit, "member 1 cannot become the leader"},
	} {
		c := newLedCluster(t, 3, "3", 0)
		if tt.down != "" {
			c.crash(tt.down)
		}
		m := c.members[tt.by]
		_, actions := m.c.Request(c.now, tt.r)
		m.do(actions)
		c.run(50 * time.Millisecond)
		done := c.members["3"].stepsDown
		if len(m.replies) != 1 || m.replies[0].Why != tt.why || !strings.Contains(m.replies[0].Error, tt.says) || (m.replies[0].Error == "") != (done == 1) {
			t.Errorf("%+v: %+v, stepped down %d times", tt.r, m.replies, done)
		}
	}
}

// A request is taken in once, in the time that it is for, by the leader that it is for, and from a member alone.
func TestARequestIsTakenInOnce(t *testing.T) {
	unknown := &Request{Do: "dance"} // which is answered, and changes nothing
	resign := &Request{Do: DoResign}
	for name, tt := range map[string]struct {
		send func(c *cluster)
		done int
	}{
		"a request": {func(c *cluster) { c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 1, Request: resign}) }, 1},
		"the number of an earlier": {func(c *cluster) {
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 4, Request: unknown})
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 4, Request: resign})
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 3, Request: resign})
		}, 0},
		"of another process": {func(c *cluster) {
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 2, Number: 4, Request: unknown})
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 5, Request: resign})
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 3, Number: 1, Request: resign})
		}, 1},
		"in time": {func(c *cluster) {
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 1, Request: &Request{Do: DoResign, Until: int64(c.now.Sub(time.Unix(0, 0)))}})
		}, 1},
		"too late": {func(c *cluster) {
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 1, Request: &Request{Do: DoResign, Until: int64(c.now.Sub(time.Unix(0, 0))) - 1}})
		}, 0},
		"by a stranger":        {func(c *cluster) { c.frame("9", "3", &frame{Op: opRequest, Incarnation: 1, Number: 1, Request: resign}) }, 0},
		"to a member":          {func(c *cluster) { c.frame("1", "2", &frame{Op: opRequest, Incarnation: 1, Number: 1, Request: resign}) }, 0},
		"of another election":  {func(c *cluster) { c.forged(func(m *election.Message) { m.Election = "other" }) }, 0},
		"of an earlier leader": {func(c *cluster) { c.forged(func(m *election.Message) { m.Token.Epoch = 0 }) }, 0},
		"as it is":             {func(c *cluster) { c.forged(func(*election.Message) {}) }, 1},
		"without a process":    {func(c *cluster) { c.frame("1", "3", &frame{Op: opRequest, Number: 1, Request: resign}) }, 0},
		"long": {func(c *cluster) {
			c.frame("1", "3", &frame{Op: opRequest, Incarnation: 1, Number: 1, Request: &Request{Do: DoResign + strings.Repeat(" ", 70)}})
		}, 0},
	} {
		c := newLedCluster(t, 3, "3", 0)
		tt.send(c)
		c.run(50 * time.Millisecond)
		if done := c.members["3"].stepsDown + c.members["2"].stepsDown; done != tt.done {
			t.Errorf("%s: stepped down %d times, want %d", name, done, tt.done)
		}
	}
}

// forged has 3 be sent by 1 that it is to resign, in a changed message.
func (c *cluster) forged(change func(*election.Message)) {
	m := &election.Message{Kind: election.Named, Election: "default", From: "1", To: "3", Token: c.members["3"].view,
		Data: (&frame{Op: opRequest, Incarnation: 1, Number: 1, Request: &Request{Do: DoResign}}).encode()}
	change(m)
	c.members["3"].step(election.Event{Kind: election.Received, Message: m})
}

// A request that waits on a link is not done when its time has passed.
func TestARequestThatWaitsIsNotDone(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	c.run(30 * time.Millisecond)
	m := c.members["1"]
	_, actions := m.c.Request(c.now, Request{Do: DoResign, Within: 500 * time.Millisecond})
	late := *actions[len(actions)-1].Message
	c.run(time.Second)
	c.members["3"].step(election.Event{Kind: election.Received, Message: &late})
	c.run(50 * time.Millisecond)
	if done := c.members["3"].stepsDown; done != 0 || len(m.replies) != 1 || m.replies[0].Why != RefusedNotLeading || !strings.Contains(m.replies[0].Error, "too late") {
		t.Errorf("%+v, stepped down %d times", m.replies, done)
	}
}

// Whoever waits for a leader that is gone is told that there is no answer.
func TestARequestWhoseLeaderEndsIsUnanswered(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	m := c.members["1"]
	c.members["3"].dead = true
	_, actions := m.c.Request(c.now, Request{Do: DoResign})
	m.do(actions)
	c.leadAll(2, "2")
	if len(m.replies) != 1 || m.replies[0].Why != Unanswered {
		t.Errorf("%+v", m.replies)
	}
}

// A member of an earlier version numbers nothing: what it asks for is done. It reads the reply, and skips what it has no key for.
func TestAMemberOfAnEarlierVersionAsks(t *testing.T) {
	c := newLedCluster(t, 3, "3", 6)
	earlier := func(number uint64, do string) *election.Message {
		data := encode(map[int]any{1: opRequest, 2: 1, 15: number, 16: map[int]any{1: do, 3: "2"}})
		return &election.Message{Kind: election.Named, Election: "default", From: "1", To: "3", Token: c.members["3"].view, Data: data}
	}
	for range 2 { // its process starts again, and counts from 1
		c.members["3"].step(election.Event{Kind: election.Received, Message: earlier(1, DoDrain)})
		c.run(time.Second)
		if shares := c.shares(6); shares["2"] != 0 {
			t.Errorf("drained it leads %d", shares["2"])
		}
		c.members["3"].step(election.Event{Kind: election.Received, Message: earlier(2, DoUndrain)})
		c.run(2 * time.Second)
		if shares := c.shares(6); shares["2"] == 0 {
			t.Error("it leads nothing")
		}
	}
	var reply struct {
		Op     op     `cbor:"1,keyasint"`
		Number uint64 `cbor:"15,keyasint,omitempty"`
		Error  string `cbor:"17,keyasint,omitempty"`
	}
	if err := encoding.Unmarshal((&frame{Op: opReply, Number: 3, Error: "no", Why: RefusedUnfit}).encode(), &reply); err != nil || reply.Number != 3 || reply.Error != "no" {
		t.Errorf("%+v: %v", reply, err)
	}
}

// A drain does not wait for hand-overs for shares either, of which the work does not stop.
func TestADrainDoesNotWaitForShares(t *testing.T) {
	c := newLedCluster(t, 3, "3", 0)
	c.campaign("mine", Candidacy{}, "2")
	for i := range 3 * MaxHandovers {
		name := fmt.Sprint("shard-", i)
		c.campaign(name, Candidacy{}, "1")
		c.members["1"].works[name] = true
	}
	c.run(time.Second)
	c.names(3 * MaxHandovers)
	c.campaign("mine", Candidacy{}, "1")
	c.run(time.Second)
	if n := c.members["3"].c.Moving(); n != MaxHandovers {
		t.Fatalf("%d are handed over for shares, want %d", n, MaxHandovers)
	}
	c.ask("3", Request{Do: DoDrain, Member: "2"}, "")
	c.run(time.Second)
	if leads := c.members["2"].leads; len(leads) > 0 {
		t.Errorf("drained it leads %v", leads)
	}
}

// A new coordinator does not know yet which members are candidates. What depends on that waits for
// their reports.
func TestANewCoordinatorAnswersWhenMembersHaveReported(t *testing.T) {
	for by, leased := range map[election.ID]bool{"1": true, "2": false, "3": true, "4": false} {
		c := newCluster(t, 4)
		for _, m := range c.members {
			m.c.leased = leased
		}
		c.leadAll(1, "4")
		c.campaign("a", Candidacy{}, "1", "2")
		c.run(time.Second)
		c.leadAll(2, "3")
		m := c.members[by]
		for _, r := range []Request{{Do: DoTransfer, Name: "a", Member: "2"}, {Do: DoDrain, Member: "1"}} {
			_, actions := m.c.Request(c.now, r)
			m.do(actions)
		}
		c.run(4 * time.Second)
		if len(m.replies) != 2 || m.replies[0].Error != "" || m.replies[1].Error != "" {
			t.Errorf("asked by %s: %+v", by, m.replies)
		}
		if !c.members["2"].leads["a"].Defined() {
			t.Errorf("asked by %s: 2 does not lead a", by)
		}
	}
}

// What waits for reports is not done after the time of the member that asked for it.
func TestARequestThatWaitsMayBeTooLate(t *testing.T) {
	c := newLeasedCluster(t)
	c.campaign("a", Candidacy{}, c.ids...)
	c.run(5 * time.Second)
	c.leadAll(2, "3")
	for _, by := range []election.ID{"1", "3"} {
		m := c.members[by]
		c.run(beatTime)
		_, actions := m.c.Request(c.now, Request{Do: DoTransfer, Name: "a", Member: "2", Within: beatTime})
		m.do(actions)
	}
	c.run(4 * time.Second)
	for _, by := range []election.ID{"1", "3"} {
		if m := c.members[by]; len(m.replies) != 1 || m.replies[0].Why != RefusedNotLeading {
			t.Errorf("asked by %s: %+v", by, m.replies)
		}
	}
}

// The end of a drain that waits for reports waits behind it: otherwise the member would stay drained.
func TestTheEndOfADrainWaitsBehindIt(t *testing.T) {
	for _, by := range []election.ID{"1", "3"} {
		c := newLeasedCluster(t)
		c.campaign("a", Candidacy{}, c.ids...)
		c.run(5 * time.Second)
		c.leadAll(2, "3")
		c.run(beatTime)
		m := c.members[by]
		for _, do := range []string{DoDrain, DoUndrain} {
			_, actions := m.c.Request(c.now, Request{Do: do, Member: "1"})
			m.do(actions)
		}
		c.run(4 * time.Second)
		if len(m.replies) != 2 || m.replies[0].Error != "" || m.replies[1].Error != "" {
			t.Errorf("asked by %s: %+v", by, m.replies)
		}
		if drained := c.members["3"].c.Drained(); len(drained) > 0 {
			t.Errorf("asked by %s: %v are drained", by, drained)
		}
	}
}

// The requests of a member that wait for reports have a bound: a broken member fills no memory, and takes no room of
// the others.
func TestRequestsThatWaitHaveABound(t *testing.T) {
	c := newLeasedCluster(t)
	c.campaign("a", Candidacy{}, c.ids...)
	c.run(5 * time.Second)
	c.leadAll(2, "3")
	c.run(beatTime)
	refused := map[election.ID]int{}
	for _, by := range []election.ID{"1", "3", "2"} {
		m := c.members[by]
		for i := range maxEarly + 2 {
			if by == "2" && i == 1 {
				break
			}
			_, actions := m.c.Request(c.now, Request{Do: DoTransfer, Name: "a", Member: "2"})
			m.do(actions)
		}
		c.run(10 * time.Millisecond)
		for _, r := range m.replies {
			if r.Why != RefusedOther || !strings.Contains(r.Error, "try again") {
				t.Errorf("asked by %s: %+v", by, r)
			}
			refused[by]++
		}
		m.replies = nil
	}
	if refused["1"] != 2 || refused["2"] != 0 || refused["3"] != 2 {
		t.Errorf("refused at once: %v", refused)
	}
	c.run(4 * time.Second)
	for by, n := range map[election.ID]int{"1": maxEarly, "2": 1, "3": maxEarly} {
		m := c.members[by]
		if len(m.replies) != n || m.replies[0].Error != "" {
			t.Errorf("asked by %s: %d replies, want %d: %+v", by, len(m.replies), n, m.replies)
		}
	}
}

// The time of the coordinator's own request ends also where it has sent no heartbeat yet: at first, and in a cluster of
// one member.
func TestACoordinatorsOwnRequestMayBeTooLate(t *testing.T) {
	for _, members := range []int{3, 1} {
		c := newCluster(t, members)
		for _, m := range c.members {
			m.c.leased = true
		}
		c.leadAll(1, "1")
		m := c.members["1"]
		_, actions := m.c.Request(c.now, Request{Do: DoDrain, Member: "1", Force: true, Within: beatTime})
		m.do(actions)
		c.run(4 * time.Second)
		if drained := m.c.Drained(); len(m.replies) != 1 || m.replies[0].Why != RefusedNotLeading || len(drained) > 0 {
			t.Errorf("%d members: %+v, and %v are drained", members, m.replies, drained)
		}
	}
}

// A process that begins where the clock was set back has a lower number than the one before: it is answered all the same.
func TestAProcessWithALowerNumberIsAnswered(t *testing.T) {
	c := newLedCluster(t, 3, "3", 1)
	for _, life := range []uint64{5, 2} {
		c.crash("1")
		c.members["1"].life = life
		m := c.start("1")
		c.leadAll(1, "3")
		c.members["3"].step(election.Event{Kind: election.LinkUp, Peer: "1", Incarnation: m.life})
		c.members["3"].step(election.Event{Kind: election.PeerUp, Peer: "1"})
		c.run(time.Second)
		_, actions := m.c.Request(c.now, Request{Do: DoDrain, Member: "2"})
		m.do(actions)
		c.run(time.Second)
		if len(m.replies) != 1 {
			t.Errorf("process %d: %+v", m.life, m.replies)
		}
	}
}

// A drain that is repeated by force differs from the drain before it, also for a member that has missed the repetition
// when the coordinator changes.
func TestADrainByForceIsNotTakenForADrain(t *testing.T) {
	c := newLedCluster(t, 4, "4", 0)
	c.campaign("a", Candidacy{}, "1", "2")
	c.run(time.Second)
	drain := func(by election.ID, force bool) {
		m := c.members[by]
		_, actions := m.c.Request(c.now, Request{Do: DoDrain, Member: "3", Force: force})
		m.do(actions)
		c.run(10 * time.Millisecond)
	}
	drain("4", false)
	c.run(time.Second)
	c.loses = func(m *election.Message) bool { return m.To == "1" }
	drain("4", true)
	c.loses = nil
	c.crash("4")
	c.leadAll(2, "2")
	c.run(2 * time.Second)
	for _, id := range []election.ID{"1", "2", "3"} {
		if !c.members[id].c.drained["3"] {
			t.Errorf("at %s the drain is not by force", id)
		}
	}
}
