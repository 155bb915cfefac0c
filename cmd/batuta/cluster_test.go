package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// prepareCluster is newCluster for a test, and ends the members with it. dataDir is the test's, or
// empty: a directory that is made before the cluster is removed after its members have ended.
func prepareCluster(t *testing.T, dataDir string, n int, flags ...string) *cluster {
	t.Helper()
	c, err := newCluster(n, flags...)
	if err != nil {
		t.Fatal(err)
	}
	c.dataDir = dataDir
	t.Cleanup(c.close)
	return c
}

// startCluster runs n members until the test ends, and waits for the highest to lead.
func startCluster(t *testing.T, n int, flags ...string) (*cluster, agreement) {
	t.Helper()
	c := prepareCluster(t, "", n, flags...)
	if err := c.startAll(); err != nil {
		t.Fatal(err)
	}
	return c, mustAgree(t, c, 1, strconv.Itoa(n))
}

// startQuorum runs three members of a quorum until the test ends, and waits for the highest to lead.
func startQuorum(t *testing.T) (*cluster, agreement) {
	t.Helper()
	c := prepareCluster(t, t.TempDir(), 3, "--algorithm", "quorum")
	if err := c.startAll(); err != nil {
		t.Fatal(err)
	}
	return c, mustAgree(t, c, 1, "3")
}

// mustAgree waits until all running members agree; see [cluster.await].
func mustAgree(t *testing.T, c *cluster, minEpoch uint64, leader string) agreement {
	t.Helper()
	a, err := c.await(t.Context(), minEpoch, leader)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func mustStart(t *testing.T, c *cluster, m *member) {
	t.Helper()
	if err := c.start(m); err != nil {
		t.Fatal(err)
	}
}

func mustCrash(t *testing.T, c *cluster, m *member) {
	t.Helper()
	if _, err := c.crash(m); err != nil {
		t.Fatal(err)
	}
}

// A leader that was elected a second time just before its end is no leader that the members agree on: its epoch is above
// the one that a test, or a round of the demo, knows.
func TestADeadOrFrozenLeaderIsNotAgreedOn(t *testing.T) {
	members := func() []*member {
		return []*member{{id: "1", process: &process{}, http: "a", leader: "2", epoch: 3}, {id: "2", process: &process{}, http: "b", leader: "2", epoch: 3}}
	}
	for what, happens := range map[string]func(*member){"it runs": func(*member) {}, "dead": func(m *member) { m.process = nil }, "frozen": func(m *member) { m.frozen = true }} {
		c := &cluster{members: members()}
		happens(c.members[1])
		if a, ok := c.agreed(); ok != (what == "it runs") {
			t.Errorf("%s: agreed: %v, on %+v", what, ok, a)
		}
	}
}

// Each time the leader is killed the next takes over with a higher epoch, and
// it takes the lead back when it returns.
func TestKillLeader(t *testing.T) {
	c, now := startCluster(t, 5)
	for round := range fulltest.Size(5, 100) {
		victim := now.leader
		mustCrash(t, c, victim)
		next := mustAgree(t, c, now.epoch+1, "")
		if next.leader == victim || next.voices != 4 {
			t.Fatalf("round %d: %d members follow %s after %s was killed", round, next.voices, next.leader.id, victim.id)
		}
		mustStart(t, c, victim)
		now = mustAgree(t, c, next.epoch+1, "5")
	}
}

// A leader that is stopped is replaced. When it runs on, the first it reports is
// that it has lost; then it takes the lead back.
func TestFreezeLeader(t *testing.T) {
	c, now := startCluster(t, 5)
	for round, early := 0, 0; round < fulltest.Size(2, 25); {
		victim, epoch, frozen := now.leader, now.epoch, time.Now()
		if _, err := c.freeze(victim); err != nil {
			t.Fatal(err)
		}
		next := mustAgree(t, c, now.epoch+1, "4")
		// Lines it wrote before it was stopped are read by now; what it had still to write has the time of before.
		if err := c.settle(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		lost := func(l api.Line) bool { return l.Event == "lost" && l.Leader == "5" && l.Epoch == epoch }
		before := slices.ContainsFunc(victim.events, lost)
		victim.events = nil
		if err := c.thaw(victim); err != nil {
			t.Fatal(err)
		}
		now = mustAgree(t, c, next.epoch+1, "5")
		before = before || slices.ContainsFunc(victim.events, func(l api.Line) bool { return lost(l) && l.Time.Before(frozen) })
		if before && early < 3 { // a busy machine had it lose before the freeze
			early++
			continue
		}
		told := slices.DeleteFunc(victim.events, func(l api.Line) bool { return l.Time.Before(frozen) })
		if len(told) == 0 {
			t.Fatalf("round %d: the thawed leader tells nothing", round)
		}
		if !lost(told[0]) {
			t.Fatalf("round %d: the thawed leader first tells %+v, want that it lost epoch %d", round, told[0], epoch)
		}
		round++
	}
}

// Five members survive any two of them dying in any order.
func TestAnyTwoDie(t *testing.T) {
	pairs := [][2]int{{4, 3}, {4, 0}, {1, 4}, {0, 1}}
	if fulltest.Enabled() {
		pairs = everyPair(5)
	}
	c, now := startCluster(t, 5)
	for _, pair := range pairs {
		t.Run(fmt.Sprintf("%d then %d", pair[0]+1, pair[1]+1), func(t *testing.T) {
			for _, i := range pair {
				mustCrash(t, c, c.members[i])
			}
			now = mustAgree(t, c, now.epoch, highestRunning(c))
			if now.voices != 3 {
				t.Errorf("%d members agree, want 3", now.voices)
			}
			for _, i := range pair {
				mustStart(t, c, c.members[i])
			}
			now = mustAgree(t, c, now.epoch, "5")
		})
	}
}

// A leader that is left with too few members steps down, reports why, and leads again once enough are back.
func TestMinMembersOfProcesses(t *testing.T) {
	c, now := startCluster(t, 3, "--min-members", "2")
	leader := now.leader
	for _, m := range c.members[:2] {
		mustCrash(t, c, m)
	}
	few := func(l api.Line) bool { return l.Event == "standing" && l.Standing == "few-members" }
	if err := c.until(t.Context(), agreeWithin, func() bool { return slices.ContainsFunc(leader.events, few) }); err != nil {
		t.Fatal(err)
	}
	if leads := c.claims(); len(leads) > 0 {
		t.Errorf("%q lead alone, and two members are needed", leads)
	}
	mustStart(t, c, c.members[0])
	mustAgree(t, c, now.epoch+1, "3")
}

// While the cluster is paused no process takes the lead of a leader that is killed, not even one that was started
// meanwhile. Any agent that knows of the pause ends it.
func TestPauseOfProcesses(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"bully", "quorum"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			c := prepareCluster(t, t.TempDir(), 3, "--algorithm", algorithm)
			if err := c.startAll(); err != nil {
				t.Fatal(err)
			}
			now := mustAgree(t, c, 1, "3") // one that started before it may have led first, until it handed over
			leader := now.leader
			others := slices.DeleteFunc(slices.Clone(c.members), func(m *member) bool { return m == leader })
			client, err := api.NewClient(others[0].http, api.Access{})
			if err != nil {
				t.Fatal(err)
			}
			var answer struct{ Paused *api.Paused }
			if err := client.Call(t.Context(), "POST", "/v1/pause", api.Break{For: "1h"}, &answer); err != nil || answer.Paused == nil || answer.Paused.Leader != leader.id {
				t.Fatalf("a follower answers %+v, %v", answer.Paused, err)
			}
			mustCrash(t, c, others[1])
			mustStart(t, c, others[1])
			mustCrash(t, c, leader)
			if err := c.settle(t.Context(), 3*time.Second); err != nil {
				t.Fatal(err)
			}
			if leads := c.claims(); len(leads) > 0 {
				t.Fatalf("%q lead although the cluster is paused", leads)
			}
			if err := client.Call(t.Context(), "POST", "/v1/resume", nil, &answer); err != nil || answer.Paused != nil {
				t.Fatalf("to resume is answered by %+v, %v", answer.Paused, err)
			}
			mustAgree(t, c, now.epoch+1, "")
		})
	}
}

// Two machines and a witness have one leader while any two of the three are up, whether the witness was on the first
// list or has joined; the witness never leads.
func TestAWitnessVotesAndNeverLeads(t *testing.T) {
	t.Parallel()
	for _, joins := range []bool{false, true} {
		t.Run(fmt.Sprintf("joins=%t", joins), func(t *testing.T) {
			t.Parallel()
			c := prepareCluster(t, t.TempDir(), 3)
			all := c.members
			start := func(i int) {
				t.Helper()
				c.command, c.flags = []string{"agent"}, []string{"--algorithm", "quorum", "--preempt=false"}
				if joins {
					c.members = all[:2] // the first list
				}
				if i == 2 {
					c.command, c.flags = []string{"witness"}, nil
				}
				if i == 2 && joins {
					c.flags = []string{"--join", all[0].listen}
				}
				mustStart(t, c, all[i])
				c.members = all
			}
			start(0)
			start(1)
			if joins {
				mustAgree(t, c, 1, "")
			}
			start(2)
			now, witness := mustAgree(t, c, 1, ""), all[2]
			awaitVoters(t, all[0], 3)
			for range 2 {
				dead := now.leader
				mustCrash(t, c, dead)
				now = mustAgree(t, c, now.epoch+1, "")
				start(slices.Index(all, dead))
				now = mustAgree(t, c, now.epoch, now.leader.id)
			}
			mustCrash(t, c, witness)
			if again := mustAgree(t, c, now.epoch, ""); again.leader != now.leader || again.epoch != now.epoch {
				t.Errorf("the end of a witness moves the lead from %s to %s", now.leader.id, again.leader.id)
			}
			start(2)
			mustAgree(t, c, now.epoch, "")
			mustCrash(t, c, all[0])
			mustCrash(t, c, all[1])
			c.mark()
			if err := c.settle(t.Context(), 3*time.Second); err != nil {
				t.Fatal(err)
			}
			if leads := c.claims(); len(leads) > 0 || witness.leader != "" {
				t.Errorf("%q lead, and the witness follows %q: one of three is up", leads, witness.leader)
			}
			if text, code := askMember(t, witness, "status --json"); code != 0 || !strings.Contains(text, "it is a witness: it votes, and never leads") {
				t.Errorf("its status: exit code %d: %s", code, text)
			}
			if size := diskUse(t, filepath.Join(c.dataDir, witness.id)); size > 320<<10 {
				t.Errorf("a witness stores %d bytes", size)
			}
		})
	}
}

// awaitVoters waits until that many members vote, as m sees it.
func awaitVoters(t *testing.T, m *member, n int) {
	t.Helper()
	awaitStatus(t, m, fmt.Sprintf("%d members do not vote", n), func(s api.Status) bool {
		return s.Quorum != nil && len(s.Quorum.Voters) == 1 && len(s.Quorum.Voters[0]) == n
	})
}

// awaitUp waits until m receives all members, itself or by its leader. At the start an address may refuse a connection: its
// member counts as down until a leader reports it, and that leader may end before.
func awaitUp(t *testing.T, m *member) {
	t.Helper()
	awaitStatus(t, m, "not all members are up", func(s api.Status) bool {
		return !slices.ContainsFunc(s.Members, func(m api.Member) bool { return m.State != "up" })
	})
}

// awaitStatus waits until the status of m is good.
func awaitStatus(t *testing.T, m *member, otherwise string, good func(api.Status) bool) {
	t.Helper()
	is := func() bool {
		text, code := askMember(t, m, "status --json")
		var s api.Status
		return code == 0 && json.Unmarshal([]byte(text), &s) == nil && good(s)
	}
	for end := time.Now().Add(agreeWithin); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s at %s after %v", otherwise, m.id, agreeWithin)
		}
	}
}

// diskUse is the number of bytes in the files of a directory.
func diskUse(t *testing.T, dir string) (size int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	return size
}

func everyPair(n int) [][2]int {
	var pairs [][2]int
	for i := range n {
		for j := range n {
			if i != j {
				pairs = append(pairs, [2]int{i, j})
			}
		}
	}
	return pairs
}

func highestRunning(c *cluster) string {
	for _, m := range slices.Backward(c.members) {
		if m.process != nil {
			return m.id
		}
	}
	return ""
}

// SIGTERM hands over: the others follow the next, and the leader ends with exit code 0.
func TestTermHandsOver(t *testing.T) {
	watch := stalltest.Start(t)
	c, now := startCluster(t, 3, "--t-process", "6s")                          // no member loses its leader before
	if err := c.settle(t.Context(), 3*election.DefaultHeartbeat); err != nil { // until all hear the leader itself
		t.Fatal(err)
	}
	old, leaving := now.leader, now.leader.process
	at := c.mark()
	if err := leaving.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	old.process = nil // its last lines are not of interest: it may go at once
	next := mustAgree(t, c, now.epoch+1, "2")
	if took := watch.Given(at, next.all); took > time.Second {
		t.Errorf("hand-over took %v", took)
	}
	select {
	case <-leaving.ended:
		if code := leaving.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d: %s", code, leaving.lastWords())
		}
	case <-time.After(partingTime):
		leaving.kill()
		t.Errorf("still there %v after SIGTERM", partingTime)
	}
	// Member 1 may receive from the new leader before it receives the old one's resignation.
	for id, causes := range map[int][]string{1: {"resigned", "superseded"}, 2: {"resigned"}} {
		m := c.members[id-1]
		i := slices.IndexFunc(m.events, func(l api.Line) bool { return l.Event == "lost" })
		if !slices.Contains(causes, m.events[i].Cause) {
			t.Errorf("%s lost its leader for %q, want %v", m.id, m.events[i].Cause, causes)
		}
	}
}

// The last one leaves too: a whole cluster can be stopped politely.
func TestAllLeave(t *testing.T) {
	c, now := startCluster(t, 3)
	for i := 2; i >= 0; i-- {
		p := c.members[i].process
		c.members[i].process = nil
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			now = mustAgree(t, c, now.epoch+1, strconv.Itoa(i))
		}
		select {
		case <-p.ended:
		case <-time.After(partingTime):
			p.kill()
			t.Fatalf("member %d still there %v after SIGTERM", i+1, partingTime)
		}
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("member %d: exit code %d: %s", i+1, code, p.lastWords())
		}
	}
}
