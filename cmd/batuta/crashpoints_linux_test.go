package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/hooks"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// A member is killed at system calls that write, sync or rename a file of its data directory, from its first
// start to its end. The next start on that directory succeeds, and leads under a higher epoch than any that was
// announced: neither its epoch nor its vote is forgotten. strace counts the calls of each thread, so that of calls that
// threads share not each one is tried.
func TestCrashPointsOfTheDisk(t *testing.T) {
	crashPoints(t, []string{"pwrite64", "fdatasync", "fsync", "renameat", "mkdirat"}, func(t *testing.T, trace []string, algorithm string) bool {
		dir := filepath.Join(t.TempDir(), "data")
		before, killed := ledOnce(t, trace, algorithm, dir)
		after, again := ledOnce(t, nil, algorithm, dir)
		if again || after <= before {
			t.Fatalf("%s: it led with epoch %d, and after the next start with epoch %d (ended by itself: %t)", trace[len(trace)-1], before, after, again)
		}
		return killed
	})
}

// crashPoints has once kill a member at the first of these calls, the second, and so on, until that reports that none was left.
func crashPoints(t *testing.T, calls []string, once func(t *testing.T, trace []string, algorithm string) (killed bool)) {
	t.Parallel()
	strace := straceProgram(t)
	for _, algorithm := range []string{"bully", "quorum"} {
		for _, call := range calls {
			t.Run(algorithm+"/"+call, func(t *testing.T) {
				t.Parallel()
				for n := 1; ; n++ {
					if once(t, killing(strace, call, n), algorithm) && !t.Failed() {
						continue
					}
					if n == 1 {
						t.Error("it is killed at no call")
					}
					t.Logf("%d crash points", n-1)
					return
				}
			})
		}
	}
}

func straceProgram(t *testing.T) string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatal(err)
		}
		t.Skip("no strace here")
	}
	return strace
}

// killing begins a command line that kills its program at the n-th such call of a thread.
func killing(strace, call string, n int) []string {
	return []string{strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n)}
}

// ledOnce starts a lone member, stops it with SIGTERM once it leads, and gives the epoch under which it led (0: none)
// and whether it ended otherwise.
func ledOnce(t *testing.T, trace []string, algorithm, dir string) (epoch uint64, killed bool) {
	t.Helper()
	script := `echo "agent $$"; exec -a batuta "$0" "$@"`
	argv := append(trace, "bash", "-c", script, os.Args[0], "agent", "--id", "1", "--algorithm", algorithm, "--t-max", "20ms", "--t-process", "100ms", "--heartbeat", "20ms",
		"--listen", "127.0.0.1:0", "--http", "off", "--events", "json", "--data-dir", dir)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = hooks.ChildAttributes()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(agreeWithin, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	defer late.Stop()
	pid := 0
	for out := bufio.NewScanner(stdout); out.Scan(); {
		if text, ok := strings.CutPrefix(out.Text(), "agent "); ok {
			pid, _ = strconv.Atoi(text)
		}
		var l api.Line
		if json.Unmarshal(out.Bytes(), &l) == nil && l.Event == "leader" {
			epoch = l.Epoch
			syscall.Kill(pid, syscall.SIGTERM)
		}
	}
	err = cmd.Wait()
	if err != nil && trace == nil {
		t.Errorf("%v: %s", err, stderr.String())
	}
	return epoch, err != nil
}

// A member that joins, receives leadership by a transfer and gives it back is killed at such a call. It starts again,
// and the cluster has one leader under an epoch that is no lower than any that was announced.
func TestCrashPointsOfAJoiningMember(t *testing.T) {
	crashPoints(t, fulltest.Size([]string{"fdatasync"}, []string{"pwrite64", "fdatasync", "fsync", "renameat", "mkdirat"}), joinedOnce)
}

// joinedOnce has a member join, lead and follow again, and reports whether it was killed meanwhile. Then it starts again.
func joinedOnce(t *testing.T, trace []string, algorithm string) (killed bool) {
	t.Helper()
	c := newCrew(t, 2, []string{"--algorithm", algorithm, "--preempt=false", "--events", "off", "--t-max", "20ms", "--t-process", "100ms", "--heartbeat", "20ms"})
	defer c.killAll()
	c.dir, c.verb, c.command = c.memory, "agent", []string{}
	pidFile := filepath.Join(c.dir, "pid")
	all := c.members
	_, address, _ := strings.Cut(all[0], "=")
	c.members = all[:1]
	c.start("1")
	c.members = []string{"", all[1]} // it has no list
	c.wrap = func(_ int, argv []string) []string {
		return append(append(slices.Clone(trace), "bash", "-c", `echo $$ >"`+pidFile+`"; exec -a batuta "$0" "$@"`, os.Args[0]), joining(argv[1:], address)...)
	}
	c.start("2")
	top := c.epochAt("1")
	for _, to := range []string{"2", "1"} {
		if !c.handedTo(to) {
			break
		}
		top = max(top, c.epochAt("1"))
	}
	select {
	case <-c.dead["2"]:
		killed = true
	default:
		text, _ := os.ReadFile(pidFile)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		syscall.Kill(pid, syscall.SIGTERM)
		<-c.dead["2"]
	}
	top = max(top, c.epochAt("1"))
	c.wrap = func(_ int, argv []string) []string {
		return append([]string{"bash", "-c", `exec -a batuta "$0" "$@"`, os.Args[0]}, joining(argv[1:], address)...)
	}
	c.start("2")
	c.members = all
	if after := c.agree("after the next start").Epoch; after < top { // a later answer may name none
		t.Errorf("epoch %d was announced, and the leader has epoch %d", top, after)
	}
	return killed
}

// joining makes flags of a member with a list those of one that joins.
func joining(argv []string, address string) (flags []string) {
	for i := 0; i < len(argv); i++ {
		if argv[i] == "--member" {
			i++
			continue
		}
		flags = append(flags, argv[i])
	}
	return append(flags, "--join", address)
}

// epochAt is the epoch of the leader that a member names; 0: none.
func (c *crew) epochAt(id string) uint64 { return c.leaderAt(id).Epoch }

// handedTo hands leadership to a member, and reports whether it leads before member 2 has ended.
func (c *crew) handedTo(id string) bool {
	for began := time.Now(); c.watch.Given(began, time.Now()) < agreeWithin; time.Sleep(20 * time.Millisecond) {
		l := c.leaderAt("1")
		if l.Leader == id {
			return true
		}
		select {
		case <-c.dead["2"]:
			return false
		default:
			if l.Leader != "" {
				c.ask("POST", l.Leader, "/v1/transfer", `{"id":"`+id+`"}`)
			}
		}
	}
	c.T.Fatalf("member %s does not lead", id)
	return false
}

// A member is killed at the calls that only a compaction of its log makes once it has started. No change of priority
// that was acknowledged is lost.
func TestCrashPointsOfACompaction(t *testing.T) {
	if !fulltest.Enabled() {
		t.Skip("set BATUTA_TEST_FULL=1: hundreds of changes come before each compaction")
	}
	fulltest.Parallel(t)
	strace := straceProgram(t)
	c := newCrew(t, 2, []string{"--algorithm", "quorum", "--preempt=false", "--events", "off", "--t-max", "20ms", "--t-process", "100ms", "--heartbeat", "20ms"})
	c.dir, c.verb, c.command = c.memory, "agent", []string{}
	last := 0
	change := func() bool {
		_, address, _ := strings.Cut(c.members[0], "=")
		leader := c.leaderAt("1").Leader
		if leader == "1" { // which is to change by the other
			c.ask("POST", "1", "/v1/transfer", `{"id":"2"}`)
			return false
		}
		return leader != "" && c.ask("POST", leader, "/v1/members", fmt.Sprintf(`{"id":"1","address":"%s","priority":%d}`, address, last+1))
	}
	kept := func() int {
		out, err := exec.Command("batuta", "members", "--json", "--agent", c.http["2"]).Output()
		var list []struct{ Priority int }
		if err != nil || json.Unmarshal(out, &list) != nil || len(list) != 2 {
			t.Fatalf("the members are %s (%v)", out, err)
		}
		return max(list[0].Priority, list[1].Priority) // of the two only one has a priority
	}
	c.start("1")
	for _, call := range []string{"renameat", "fsync"} {
		c.wrap = nil
		c.start("2")
		c.agree("before " + call)
		for first := last; last < first+240; { // of 256 records, after which it compacts
			if change() {
				last++
			}
		}
		c.send("2", syscall.SIGTERM)
		<-c.dead["2"]
		c.wrap = func(_ int, argv []string) []string {
			return append(append(killing(strace, call, 1), "bash", "-c", `exec -a batuta "$0" "$@"`, os.Args[0]), argv[1:]...)
		}
		c.start("2")
		for killed, began := false, time.Now(); !killed; {
			if c.watch.Given(began, time.Now()) > 2*runtest.Patience {
				t.Fatalf("%s: it is not killed", call)
			}
			if change() {
				last++
				continue
			}
			select {
			case <-c.dead["2"]:
				killed = true
			case <-time.After(20 * time.Millisecond): // it does not lead yet
			}
		}
		c.wrap = nil
		c.start("2")
		c.agree("after " + call)
		if now := kept(); now != last && now != last+1 { // the last change may be on disk, and its answer lost
			t.Errorf("%s: priority %d was acknowledged, and it is %d", call, last, now)
		} else {
			last = now
		}
		c.send("2", syscall.SIGTERM)
		<-c.dead["2"]
	}
	t.Logf("%d changes", last)
}
