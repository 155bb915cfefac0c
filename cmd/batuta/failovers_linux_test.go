package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// This file is what happens to leaders before a witness: see witness_linux_test.go.
//
// BATUTA_TEST_WITNESS=N has N failovers of each kind, over as many clusters beside each
// other as -parallel says: they mostly wait.

// strike is something that happens to a leader, and what undoes it.
type strike struct {
	name       string
	hit, after func(c *crew, s *shift)
}

// resigning asks the leader to step down; it may just have been replaced.
func resigning(c *crew, s *shift) { c.ask("POST", s.leader, "/v1/resign", "") }

// ask asks an agent, and tells whether it has done so.
func (c *crew) ask(method, id, path, body string) bool {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if c.lan != nil {
		machine, _ := strconv.Atoi(id)
		client.Transport.(*http.Transport).DialContext = c.lan.dialer(machine)
	}
	req, err := http.NewRequest(method, "http://"+c.http[id]+path, strings.NewReader(body))
	if err != nil {
		return false
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// dialer dials as a process on machine i does.
func (l *lan) dialer(i int) func(context.Context, string, string) (net.Conn, error) {
	return func(_ context.Context, network, address string) (conn net.Conn, err error) {
		done := make(chan struct{})
		gone := l.visit(strconv.Itoa(i), func() {
			defer close(done)
			conn, err = net.DialTimeout(network, address, time.Second)
		})
		if gone != nil {
			return nil, gone
		}
		<-done
		return conn, err
	}
}

func restarting(c *crew, s *shift) {
	<-c.dead[s.leader]
	c.start(s.leader)
}

// renewing ends a member whose command has failed, and starts it again: its pause before
// it stands grows from failure to failure.
func renewing(c *crew, s *shift) {
	c.send(s.leader, syscall.SIGKILL)
	restarting(c, s)
}

func nothing(*crew, *shift) {}

var strikes = []strike{
	{"the agent is killed", func(c *crew, s *shift) { c.send(s.leader, syscall.SIGKILL) }, restarting},
	{"the agent is stopped", func(c *crew, s *shift) { c.send(s.leader, syscall.SIGSTOP) }, func(c *crew, s *shift) { c.send(s.leader, syscall.SIGCONT) }},
	{"the agent is killed, then its guard", inTurn(killAgent, killGuard), restarting},
	{"the guard is killed, then its agent", inTurn(killGuard, killAgent), restarting},
	{"the guard is killed", func(c *crew, s *shift) { c.toGuard(s.leader, syscall.SIGKILL) }, renewing},
	{"the guard is stopped, and the leader resigns", func(c *crew, s *shift) {
		c.toGuard(s.leader, syscall.SIGSTOP)
		resigning(c, s)
	}, renewing},
	{"the command is killed", func(_ *crew, s *shift) { syscall.Kill(s.pid, syscall.SIGKILL) }, renewing},
	{"the command is stopped, and the leader resigns", func(c *crew, s *shift) {
		syscall.Kill(s.pid, syscall.SIGSTOP)
		resigning(c, s)
	}, nothing},
	{"SIGTERM", func(c *crew, s *shift) { c.send(s.leader, syscall.SIGTERM) }, restarting},
	{"the leader resigns", resigning, nothing},
	{"the lead is handed over by name", func(c *crew, s *shift) {
		for id := range c.http {
			if id != s.leader && c.ask("POST", s.leader, "/v1/transfer", `{"id":"`+id+`"}`) {
				return
			}
		}
	}, nothing},
}

// cuts are what may happen to a leader's network.
func cuts(l *lan) []strike {
	cut := func(name string, cut, mend func(machine int)) strike {
		away := 0
		back := func(*crew, *shift) {
			if away != 0 {
				mend(away)
			}
			away = 0
		}
		return strike{name, func(c *crew, s *shift) {
			back(c, s) // who was cut off before did not lead any more
			away, _ = strconv.Atoi(s.leader)
			cut(away)
		}, back}
	}
	return []strike{
		cut("the link is down", func(i int) { l.ip(switchRoom, "link", "set", wire(i), "down") }, func(i int) { l.ip(switchRoom, "link", "set", wire(i), "up") }),
		cut("nothing leaves the leader", l.mute, func(i int) { l.unmute(i) }),
		cut("the leader is parted from the rest", func(i int) { l.part(i) }, func(int) { l.heal() }),
	}
}

// fullDisk is a disk without room when the leader has something to write: another's priority.
var fullDisk = strike{"the disk is full", func(c *crew, s *shift) {
	c.fill(s.leader)
	other, address, _ := strings.Cut(c.members[0], "=")
	if other == s.leader {
		other, address, _ = strings.Cut(c.members[1], "=")
	}
	for range 20 { // there is room in the page that its log has begun
		priority := strconv.Itoa(rand.IntN(1000))
		if !c.ask("POST", s.leader, "/v1/members", `{"id":"`+other+`","address":"`+address+`","priority":`+priority+`}`) {
			return
		}
	}
}, func(c *crew, _ *shift) {
	for id := range c.http {
		os.Remove(c.filler(id))
	}
}}

func (c *crew) filler(id string) string { return filepath.Join(c.dir, id, "filler") }

// fill takes all room from a member's disk, that which its log has made ready too.
func (c *crew) fill(id string) {
	c.T.Helper()
	c.send(id, syscall.SIGSTOP) // it writes nothing meanwhile
	defer c.send(id, syscall.SIGCONT)
	stat := fmt.Sprintf("/proc/%d/stat", c.runs[id].Process.Pid)
	for late := time.Now().Add(time.Second); time.Now().Before(late); time.Sleep(100 * time.Microsecond) {
		if text, _ := os.ReadFile(stat); bytes.Contains(text, []byte(") T ")) {
			break
		}
	}
	file := filepath.Join(c.dir, id, "log")
	data, err := os.ReadFile(file)
	if err != nil {
		c.T.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		c.T.Fatal(err)
	}
	defer f.Close()
	page := int64(os.Getpagesize())
	from := (int64(len(bytes.TrimRight(data, "\x00"))) + page - 1) / page * page
	if size := int64(len(data)) - from; size > 0 {
		if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, size); err != nil {
			c.T.Fatal(err)
		}
	}
	if err := os.WriteFile(c.filler(id), make([]byte, 2*memberDisk), 0o600); err == nil {
		c.T.Fatalf("the disk of member %s takes twice its size", id)
	}
}

// explain logs what each member knows and has done lately.
func (c *crew) explain() {
	for i := range c.members {
		for _, verb := range [][]string{{"status"}, {"explain", "--trace"}} {
			argv := append([]string{"timeout", "5", "batuta"}, append(verb, "--http", c.http[strconv.Itoa(i+1)])...)
			if c.lan != nil {
				argv = c.lan.in(i+1, argv...)
			}
			out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
			c.T.Logf("member %d, %s: %v\n%s", i+1, verb, err, out)
		}
	}
}

// memberDisk is the bytes of a member's disk.
const memberDisk = 1 << 20

// withDisks gives each member a disk of its own.
func (c *crew) withDisks() {
	c.T.Helper()
	for id := range c.http {
		dir := filepath.Join(c.dir, id)
		if err := os.Mkdir(dir, 0o700); err != nil {
			c.T.Fatal(err)
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+strconv.Itoa(memberDisk)); err != nil {
			c.T.Fatal(err)
		}
		c.T.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
}

// send signals an agent, if it runs.
func (c *crew) send(id string, s syscall.Signal) { c.runs[id].Process.Signal(s) }

// toGuard signals the guard of a member, if there is one just now.
func (c *crew) toGuard(id string, signal syscall.Signal) {
	for _, pid := range c.guards(id) {
		syscall.Kill(pid, signal)
	}
}

// guards are the processes of a member's guards.
func (c *crew) guards(id string) (pids []int) {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.runs[id].Process.Pid))
	for _, file := range list {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if line, _ := os.ReadFile("/proc/" + field + "/cmdline"); err == nil && strings.Contains(string(line), "\x00guard") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// inTurn kills the agent of a leader and its guard, one a moment after the other.
func inTurn(first, then func(c *crew, s *shift, guards []int)) func(*crew, *shift) {
	return func(c *crew, s *shift) {
		guards := c.guards(s.leader)
		first(c, s, guards)
		time.Sleep(time.Duration(rand.IntN(4000)) * time.Microsecond)
		then(c, s, guards)
	}
}

func killAgent(c *crew, s *shift, _ []int) { c.send(s.leader, syscall.SIGKILL) }

func killGuard(_ *crew, _ *shift, guards []int) {
	for _, pid := range guards {
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// sharpTimes make T 200 ms, so that many rounds take little time.
var sharpTimes = []string{"--heartbeat", "30ms", "--t-max", "50ms", "--t-process", "100ms"}

// failovers are so many of each kind, shared by some clusters.
type failovers struct {
	mu   sync.Mutex
	left map[string]int
	gaps map[string][]time.Duration // of those seen: how long nobody wrote
}

// asked is how many failovers of each kind there are to be, and on how many clusters.
func asked(t *testing.T, otherwise int) (each, clusters int) {
	text := os.Getenv("BATUTA_TEST_WITNESS")
	if text == "" {
		return otherwise, 1
	}
	each, err := strconv.Atoi(text)
	if err != nil || each < 1 {
		t.Fatalf("BATUTA_TEST_WITNESS=%s: it is how many failovers of each kind there are to be", text)
	}
	clusters, _ = strconv.Atoi(flag.Lookup("test.parallel").Value.String())
	return each, min(clusters, each)
}

// take gives a kind of which some are left, unless the test is out of time.
func (f *failovers) take(t *testing.T, kinds []strike) (strike, bool) {
	if end, limited := t.Deadline(); limited && time.Until(end) < runtest.Patience {
		return strike{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range rand.Perm(len(kinds)) {
		if s := kinds[i]; f.left[s.name] > 0 {
			f.left[s.name]--
			return s, true
		}
	}
	return strike{}, false
}

func (f *failovers) seen(t *testing.T, name string, gap time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gaps[name] = append(f.gaps[name], gap)
	total := 0
	for _, g := range f.gaps {
		total += len(g)
	}
	if total%500 == 0 {
		t.Logf("%d failovers", total)
	}
}

func (f *failovers) tell(t *testing.T) {
	for name, gaps := range f.gaps {
		slices.Sort(gaps)
		t.Logf("%d times %s: nobody wrote for %v in the median, from %v to %v", len(gaps), name, gaps[len(gaps)/2], gaps[0], gaps[len(gaps)-1])
	}
	for name, left := range f.left {
		if left > 0 {
			t.Errorf("%s: %d more were asked for", name, left)
		}
	}
}

// beforeAWitness has crews fail over, so many times of each kind in all, each crew before a witness.
func beforeAWitness(t *testing.T, otherwise int, prepare func(*testing.T) (*crew, []strike)) {
	each, clusters := asked(t, otherwise)
	all := failovers{left: map[string]int{}, gaps: map[string][]time.Duration{}}
	t.Cleanup(func() { all.tell(t) })
	for i := range clusters {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			if clusters > 1 {
				t.Parallel()
			}
			w := newWitness(t)
			c, kinds := prepare(t)
			all.mu.Lock()
			for _, s := range kinds {
				if _, known := all.left[s.name]; !known {
					all.left[s.name] = each
				}
			}
			all.mu.Unlock()
			w.watch = c.watch
			c.command = []string{"scribe", w.socket}
			c.startAll()
			leads := w.next(0, runtest.Patience)
			if leads == nil {
				t.Fatal("nobody leads")
			}
			defer func() {
				if w.judge(); t.Failed() {
					c.explain()
				}
			}()
			for s, more := all.take(t, kinds); more && w.well(); s, more = all.take(t, kinds) {
				time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond)))) // at any moment between two beats
				struck, next := w.strike(leads, s.name, func(leader *shift) { s.hit(c, leader) })
				s.after(c, struck)
				all.seen(t, s.name, time.Duration(next.from-struck.to))
				leads = next
			}
		})
	}
}

// newWitnessed makes a crew of three under a quorum.
func newWitnessed(t *testing.T, flags ...string) *crew {
	t.Helper()
	c := newCrew(t, 3, slices.Concat([]string{"--algorithm", "quorum", "--preempt=false", "--grace", "50ms"}, sharpTimes, flags))
	c.dir = c.memory
	return c
}

// Under a quorum no two leaders work at once, and none writes that is over, whatever
// happens to a leader's processes: somebody looks on who knows.
func TestAWitnessSeesOneLeader(t *testing.T) {
	t.Parallel()
	beforeAWitness(t, fulltest.Size(1, 10), func(t *testing.T) (*crew, []strike) { return newWitnessed(t), strikes })
}

// The same on machines of their own, whose network fails, and whose disks are full.
func TestAWitnessSeesOneLeaderOnMachinesOfTheirOwn(t *testing.T) {
	t.Parallel()
	beforeAWitness(t, fulltest.Size(1, 10), func(t *testing.T) (*crew, []strike) {
		l := newLAN(t, 3)
		c := newWitnessed(t, "--insecure")
		c.lan, c.wrap = l, func(i int, argv []string) []string { return l.in(i, argv...) }
		for i := range c.members {
			id := strconv.Itoa(i + 1)
			c.members[i], c.http[id] = id+"="+machineAddress(i+1), "127.0.0.1:7500"
		}
		c.withDisks()
		kinds := append(cuts(l), fullDisk)
		if os.Getenv("BATUTA_TEST_WITNESS") != "" {
			kinds = append(kinds, strikes...)
		}
		return c, kinds
	})
}
