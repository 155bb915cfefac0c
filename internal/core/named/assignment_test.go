package named

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
)

func TestEveryNameIsLedOnceAndSharesAreEven(t *testing.T) {
	c := newLedCluster(t, 5, "5", 100)
	if shares := c.shares(100); !even(shares) {
		t.Errorf("shares %v", shares)
	}
	c.moved()
	c.run(time.Minute)
	if n := c.moved(); n != 0 {
		t.Errorf("%d leads begin while nothing happens", n)
	}
}

// Candidates come before there is a coordinator, too.
func TestCandidatesMayComeFirst(t *testing.T) {
	c := newCluster(t, 3)
	c.names(10)
	c.run(time.Second)
	c.leadAll(1, "3")
	c.run(time.Second)
	c.shares(10)
}

func TestAMemberThatCrashesLosesItsNamesAlone(t *testing.T) {
	c := newLedCluster(t, 5, "5", 100)
	c.shares(100)
	c.moved()
	c.crash("2")
	c.run(50 * time.Millisecond)
	if shares := c.shares(100); !even(shares) {
		t.Errorf("shares %v", shares)
	}
	if n := c.moved(); n != 20 {
		t.Errorf("%d leads begin, want the 20 of the crashed", n)
	}
}

func TestANewCoordinatorInterruptsNobody(t *testing.T) {
	c := newLedCluster(t, 5, "5", 100)
	c.shares(100)
	c.moved()
	c.crash("5")
	c.run(20 * time.Millisecond)
	c.leadAll(2, "4")
	c.run(50 * time.Millisecond)
	c.shares(100)
	if n := c.moved(); n != 20 {
		t.Errorf("%d leads begin, want the 20 of the coordinator that crashed", n)
	}
	c.run(time.Second)
	if n := c.moved(); n > 5 {
		t.Errorf("then %d leads more begin", n)
	}
}

// Without a coordinator leads last for 2·T and a heartbeat after the last stamp that was
// echoed, and no longer.
func TestALeadEndsWithoutACoordinator(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	c.shares(9)
	for _, id := range c.ids {
		c.members[id].view = election.Token{}
		c.members[id].nextBeat = time.Time{}
		c.members[id].step(election.Event{Kind: election.Woke})
	}
	c.run(1100 * time.Millisecond)
	if n := len(c.members["1"].leads); n != 3 {
		t.Errorf("after 1.1 s it leads %d of 3", n)
	}
	c.run(300 * time.Millisecond)
	for _, id := range c.ids {
		if n := len(c.members[id].leads); n != 0 {
			t.Errorf("after 1.4 s %s leads %d", id, n)
		}
	}
	c.leadAll(2, "3")
	c.run(100 * time.Millisecond)
	c.shares(9)
}

// What a member sends does not arrive, and what is sent to it does: its names go to
// others, and only when it leads them no more.
func TestASilentMemberIsReplacedWhenItsTimeHasPassed(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	c.shares(9)
	c.cut[[2]election.ID{"1", "3"}] = true
	for range 400 {
		c.run(10 * time.Millisecond)
		leaders := map[string]bool{}
		for _, id := range c.ids {
			for name := range c.members[id].leads {
				if leaders[name] {
					t.Fatalf("%s is led twice", name)
				}
				leaders[name] = true
			}
		}
	}
	if n := len(c.members["1"].leads); n != 0 {
		t.Errorf("it still leads %d", n)
	}
	if n := len(c.members["2"].leads) + len(c.members["3"].leads); n != 9 {
		t.Errorf("the others lead %d", n)
	}
	c.cut[[2]election.ID{"1", "3"}] = false
	c.run(2 * time.Second)
	if shares := c.shares(9); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}

// What a member has reported that it holds is not waited for while it is down or silent.
func TestAMemberThatIsNotReceivedTakesNoSeat(t *testing.T) {
	for what, ends := range map[string]func(*cluster){
		"down":   func(c *cluster) { c.crash("1") },
		"silent": func(c *cluster) { c.cut[[2]election.ID{"1", "3"}] = true },
	} {
		c := newLedCluster(t, 3, "3", 9)
		c.leadAll(2, "3") // all members report what they hold
		c.run(time.Second)
		ends(c)
		c.run(4 * time.Second)
		if n := len(c.members["2"].leads) + len(c.members["3"].leads); n != 9 {
			t.Errorf("%s: the others lead %d of 9", what, n)
		}
	}
}

// A newcomer gets its share, each name when the work for it has stopped.
func TestAHandOverWaitsForTheWork(t *testing.T) {
	c := newCluster(t, 3)
	c.crash("1")
	c.leadAll(1, "3")
	for i := range 30 {
		c.campaign(fmt.Sprintf("shard-%d", i), Candidacy{}, "2", "3")
	}
	c.run(time.Second)
	c.shares(30)
	for _, id := range []election.ID{"2", "3"} {
		for name := range c.members[id].leads {
			c.members[id].works[name] = true
		}
	}
	c.start("1")
	c.members["3"].step(election.Event{Kind: election.PeerUp, Peer: "1"})
	c.lead(1, "3", "1")
	for i := range 30 {
		c.campaign(fmt.Sprintf("shard-%d", i), Candidacy{}, "1")
	}
	c.run(5 * time.Second)
	if n := len(c.members["1"].leads); n != 0 {
		t.Fatalf("it leads %d while the work of others runs", n)
	}
	ended := 0
	for _, id := range []election.ID{"2", "3"} {
		m := c.members[id]
		for name := range m.working {
			if m.leads[name] == (election.Token{}) {
				delete(m.works, name)
				m.stops(name)
				ended++
			}
		}
	}
	if ended < 9 || ended > 11 {
		t.Errorf("%d were asked to end, want a third of 30", ended)
	}
	c.run(time.Second)
	if shares := c.shares(30); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}

// A report that work goes on would have the report of its end wait for the next flush.
func TestALeadIsReportedWhenItsWorkHasStopped(t *testing.T) {
	c := newLedCluster(t, 2, "2", 2)
	m, name, reports := c.members["1"], "shard-0", 0
	if m.leads[name] == (election.Token{}) {
		name = "shard-1"
	}
	c.loses = func(msg *election.Message) bool {
		if msg.Kind == election.Named && msg.From == m.id {
			reports++
		}
		return false
	}
	m.works[name] = true
	m.do(m.c.Resign(c.now, name))
	c.run(time.Millisecond)
	if reports > 0 {
		t.Errorf("%d reports while its work runs", reports)
	}
	m.stops(name)
	c.run(2 * time.Millisecond)
	if c.members["2"].leads[name] == (election.Token{}) {
		t.Error("the next member does not lead it 2 ms after its work has stopped")
	}
}

func TestAMemberThatRestartsLeadsUnderNewEpochs(t *testing.T) {
	c := newLedCluster(t, 2, "2", 4)
	for epoch := uint64(2); epoch < 6; epoch++ {
		c.crash("1")
		c.crash("2")
		c.run(time.Second)
		c.start("1")
		c.start("2")
		c.names(4)
		c.leadAll(epoch, election.ID(fmt.Sprint(1+epoch%2)))
		c.run(3 * time.Second)
		c.shares(4)
	}
}

// Both sides of a partition lead everything; when they meet the higher tokens stay.
func TestTwoSidesMeet(t *testing.T) {
	c := newLedCluster(t, 4, "4", 12)
	for _, a := range []election.ID{"1", "2"} {
		for _, b := range []election.ID{"3", "4"} {
			c.cut[[2]election.ID{a, b}], c.cut[[2]election.ID{b, a}] = true, true
		}
	}
	c.run(700 * time.Millisecond)
	c.led = map[key]election.Token{} // each side counts for itself
	c.lead(2, "2", "1")
	c.run(3 * time.Second)
	if n := len(c.members["1"].leads) + len(c.members["2"].leads); n != 12 {
		t.Errorf("one side leads %d of 12", n)
	}
	if n := len(c.members["3"].leads) + len(c.members["4"].leads); n != 12 {
		t.Errorf("the other leads %d of 12", n)
	}
	clear(c.cut)
	c.leadAll(3, "4")
	c.run(2 * time.Second)
	if shares := c.shares(12); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}

func TestWithdrawAndResign(t *testing.T) {
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.campaign("x", Candidacy{}, "1", "2")
	c.run(time.Second)
	c.shares(1)
	m := c.members["1"]
	m.do(m.c.Resign(c.now, "x"))
	c.run(100 * time.Millisecond)
	if _, leads := c.members["2"].leads["x"]; !leads {
		t.Fatal("1 resigned, and 2 does not lead")
	}
	c.run(10 * time.Second)
	if n := len(m.leads); n != 0 {
		t.Error("who resigned leads again, though the other lives")
	}
	m = c.members["2"]
	m.do(m.c.Withdraw(c.now, "x"))
	c.run(100 * time.Millisecond)
	if _, leads := c.members["1"].leads["x"]; !leads {
		t.Error("2 stands no more, and 1 does not lead")
	}
	m = c.members["1"]
	m.do(m.c.Withdraw(c.now, "x"))
	c.run(time.Second)
	for _, id := range c.ids {
		if m := c.members[id]; len(m.c.names) != 0 {
			t.Errorf("%s keeps %v of a name that nobody stands for", id, m.c.names)
		}
	}
	if n := len(c.members["3"].c.office.contests.byName); n != 0 {
		t.Errorf("the coordinator keeps %d contests", n)
	}
	c.campaign("x", Candidacy{}, "1") // under an epoch above the last
	c.run(time.Second)
	c.shares(1)
}

func TestAnUnfitMemberGivesUp(t *testing.T) {
	c := newLedCluster(t, 3, "3", 9)
	for _, id := range []election.ID{"1", "3"} {
		c.members[id].standing = election.IneligibleUnhealthy
		c.members[id].step(election.Event{Kind: election.Woke})
		c.run(time.Second)
		if shares := c.shares(9); shares[id] != 0 {
			t.Errorf("%s is unhealthy and leads %d", id, shares[id])
		}
		c.members[id].standing = election.Eligible
		c.members[id].step(election.Event{Kind: election.Woke})
		c.run(2 * time.Second)
		if shares := c.shares(9); !even(shares) {
			t.Errorf("shares %v", shares)
		}
	}
}

// What a cluster sends at rest does not depend on how many elections it has.
func TestAtRestNothingGrows(t *testing.T) {
	c := newCluster(t, 5)
	c.leadAll(1, "5")
	c.names(1000)
	c.run(2 * time.Second)
	c.shares(1000)
	c.bytes = 0
	c.run(time.Minute)
	if c.bytes != 0 {
		t.Errorf("%d bytes beside the beats in a minute", c.bytes)
	}
}

// Frames that are lost, in all directions and for a while, change nothing in the end.
func TestWhatIsLostIsSaidAgain(t *testing.T) {
	for seed := range 200 {
		c := newCluster(t, 3)
		c.leadAll(1, "3")
		x := uint64(seed)*0x9e3779b97f4a7c15 + 1
		random := func(n int) int { x ^= x << 13; x ^= x >> 7; x ^= x << 17; return int(x % uint64(n)) }
		c.names(10)
		for range 30 {
			c.run(time.Duration(1+random(300)) * time.Millisecond)
			a, b := c.ids[random(3)], c.ids[random(3)]
			c.cut[[2]election.ID{a, b}] = random(2) == 0
			m := c.members[c.ids[random(3)]]
			name := fmt.Sprintf("shard-%d", random(12))
			if random(2) == 0 {
				c.campaign(name, Candidacy{}, m.id)
			} else {
				m.do(m.c.Withdraw(c.now, name))
			}
		}
		clear(c.cut)
		c.names(10)
		c.run(10 * time.Second)
		for _, extra := range []string{"shard-10", "shard-11"} {
			for _, m := range c.members {
				m.do(m.c.Withdraw(c.now, extra))
			}
		}
		c.run(5 * time.Second)
		if shares := c.shares(10); !even(shares) || t.Failed() {
			t.Fatalf("seed %d: shares %v", seed, shares)
		}
	}
}

func TestTenThousandElectionsAreCheap(t *testing.T) {
	c := newCluster(t, 5)
	c.leadAll(1, "5")
	c.names(10_000)
	c.run(3 * time.Second)
	if shares := c.shares(10_000); !even(shares) {
		t.Errorf("shares %v", shares)
	}
	c.crash("5")
	c.leadAll(2, "4")
	c.run(50 * time.Millisecond)
	c.shares(10_000)
}

func TestNames(t *testing.T) {
	for name, wants := range map[string]string{
		"": "needs a name", "shard-17": "", strings.Repeat("x", 256): "", strings.Repeat("x", 257): "257 bytes",
		"a\x00b": "control", "a\nb": "control", "\xff": "UTF-8", "ñandú 1": "", "a\u202eb": "control",
	} {
		_, err := Name(name)
		if (err == nil) != (wants == "") || err != nil && !strings.Contains(err.Error(), wants) {
			t.Errorf("%q: %v, want %q", name, err, wants)
		}
	}
	if a, _ := Name("n\u0303"); a != "ñ" {
		t.Errorf("not in NFC: %q", a)
	}
}

// A frame of anything is refused or harmless.
func FuzzFrame(f *testing.F) {
	f.Add((&frame{Op: opReport, Whole: true, Parts: 1, Claims: []claim{{Name: "x", Stands: true, Seats: 1, Weight: 1}}}).encode())
	f.Add((&frame{Op: opAssign, Whole: true, Parts: 1, Seats: []Seat{{Name: "x", Leader: "2", Epoch: 1 << 24}}}).encode())
	for _, do := range []string{DoTransfer, DoDrain, DoUndrain, DoResign, DoHandOver} {
		f.Add((&frame{Op: opRequest, Stamp: 5, Incarnation: 1, Number: 1, Request: &Request{Do: do, Name: "x", Member: "1", Force: true, Until: 1 << 40}}).encode())
	}
	f.Add((&frame{Op: opReply, Number: 1, Error: "not the leader", Why: RefusedNotLeading}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if fr, err := decode(data); err != nil || fr == nil {
			return
		}
		c := newCluster(t, 3)
		c.leadAll(1, "3")
		c.names(3)
		for _, to := range []election.ID{"3", "1"} {
			c.members[to].step(election.Event{Kind: election.Received, Message: &election.Message{Kind: election.Named, Election: "default", From: map[election.ID]election.ID{"3": "2", "1": "3"}[to], To: to, Token: c.members[to].view, Data: data}})
		}
	})
}

func TestAFormerCoordinatorAsksNobody(t *testing.T) {
	for _, leads := range []bool{true, false} {
		c := newLedCluster(t, 3, "3", 9)
		m := c.members["3"]
		ack := &election.Message{Kind: election.Ack, Election: "default", From: "1", To: "3", Token: m.view,
			Shares: &election.Shares{Stamp: m.c.office.peers["1"].stamp + 1, Version: m.c.office.peers["1"].version + 1}}
		if !leads {
			m.view = election.Token{} // with the acknowledgement its core finds that it was stopped
		}
		sent := false
		for _, a := range m.c.Step(c.now, election.Event{Kind: election.Received, Message: ack}) {
			sent = sent || a.Kind == election.Send && a.Message.Kind == election.Named
		}
		if sent != leads {
			t.Errorf("it leads: %v, and asks: %v", leads, sent)
		}
	}
}

// A coordinator is replaced if a step takes longer than T. So a step fills so many names and no more.
func TestAStepFillsSomeNames(t *testing.T) {
	const names = 2*MaxFills + 9
	c := newCluster(t, 3)
	c.leadAll(1, "3")
	c.run(time.Second)
	var stands []Stand
	for i := range names {
		stands = append(stands, Stand{fmt.Sprintf("shard-%d", i), Candidacy{Weight: 1, Seats: 1}})
	}
	m := c.members["3"]
	m.do(m.c.Campaign(c.now, stands...))
	if m.most != MaxFills {
		t.Errorf("a step gives %d names, want %d", m.most, MaxFills)
	}
	if c.run(100 * time.Millisecond); len(m.leads) != names {
		t.Errorf("it leads %d of %d names after 100 ms", len(m.leads), names)
	}
	for _, id := range c.ids[:2] {
		c.members[id].do(c.members[id].c.Campaign(c.now, stands...))
	}
	c.run(5 * time.Second)
	if shares := c.shares(names); !even(shares) {
		t.Errorf("shares %v", shares)
	}
}

// A new coordinator looks at all names. Those that have a leader do not count as filled: it fills the seats
// of the former coordinator in a step, and publishes none of them without a leader before.
func TestNamesThatAreLedAreNotFilled(t *testing.T) {
	c := newLedCluster(t, 3, "3", MaxFills+MaxFills/2)
	assigned, leaderless := 0, 0
	c.members["2"].loses = func(m *election.Message) bool {
		f, err := decode(m.Data)
		if err != nil || f.Op != opAssign || m.To != "1" {
			return false
		}
		for _, s := range f.Seats {
			if assigned++; s.Leader == election.None {
				leaderless++
			}
		}
		return false
	}
	c.crash("3")
	c.leadAll(2, "2")
	c.run(50 * time.Millisecond)
	if want := MaxFills / 2; assigned != want || leaderless > 0 {
		t.Errorf("it publishes %d seats, of them %d without a leader; want %d with a leader each", assigned, leaderless, want)
	}
}

// Even shares do not keep a name from the member that is preferred, nor a seat that is too many.
func TestEvenSharesAreNotAllThatCounts(t *testing.T) {
	c := newLedCluster(t, 2, "2", 2)
	for _, id := range c.ids {
		for name := range c.members["2"].leads {
			c.campaign(name, Candidacy{Prefer: id == "1"}, id)
		}
	}
	c.run(time.Second)
	if shares := c.shares(2); !even(shares) || len(c.members["1"].leads) == 0 {
		t.Fatalf("shares %v", shares)
	}
	for name := range c.members["1"].leads {
		if can := c.members["1"].c.campaigns[name]; !can.Prefer {
			t.Errorf("1 leads %s, and prefers what 2 leads", name)
		}
	}
	c = newLedCluster(t, 2, "2", 0)
	for seats := 2; seats > 0; seats-- {
		c.campaign("a", Candidacy{Seats: seats}, c.ids...)
		c.run(time.Second)
		if led := len(c.members["1"].leads) + len(c.members["2"].leads); led != seats {
			t.Errorf("%d seats, and %d are led", seats, led)
		}
	}
}

// A coordinator that has numbered all that its epoch can steps down, once; the next goes on above that.
func TestACoordinatorWithoutFurtherNumbersStepsDown(t *testing.T) {
	c := newLedCluster(t, 3, "3", 1)
	last := c.members["3"]
	for name, k := range last.c.office.contests.byName {
		k.last = 2<<EpochBits - 1
		for _, m := range c.members {
			if m.leads[name].Defined() {
				m.do(m.c.Resign(c.now, name))
			}
		}
		c.run(time.Second)
		if last.stepsDown != 1 {
			t.Fatalf("it has no more numbers, and has stepped down %d times, want once", last.stepsDown)
		}
		c.leadAll(2, "2")
		c.run(2 * time.Second)
		if led := c.led[key{name, 0}]; led.Epoch <= 2<<EpochBits-1 {
			t.Errorf("the next coordinator: led under %d, want above %d", led.Epoch, 2<<EpochBits-1)
		}
	}
}
