package main

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/fulltest"
	"github.com/batuta-dev/batuta/internal/run/runtest"
)

var witnessRounds = flag.Int("witness", 0, "rounds of each fault before a witness; default few, and more with BATUTA_TEST_FULL=1")

// bootNow is the clock that all processes of a machine share, and that counts suspends.
func bootNow() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}

func init() { programs["scribe"] = scribe }

// scribe is the work of a leader that a witness looks at: it tells the token under which
// it runs and the time, again and again, until it is killed. SIGTERM does not end it.
func scribe() {
	signal.Ignore(syscall.SIGTERM)
	conn, err := net.Dial("unix", os.Args[1])
	if err != nil {
		os.Exit(90)
	}
	answers := bufio.NewReader(conn)
	for {
		fmt.Fprintf(conn, "%s %d\n", os.Getenv("BATUTA_TOKEN"), bootNow())
		if _, err := answers.ReadString('\n'); err != nil {
			os.Exit(91)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// witness is a service outside the cluster that leaders write to. It knows what none of
// them can: whether two worked at once, and whether one wrote that was over.
type witness struct {
	t      *testing.T
	socket string
	came   chan *shift // each when its first write has come

	mu      sync.Mutex
	shifts  []*shift
	highest uint64
	faults  []string
	writes  int
}

// shift is what one process of a leader has written, by its own clock, which is
// everyone's here.
type shift struct {
	epoch    uint64
	leader   string
	pid      int
	from, to int64
}

func (s *shift) String() string { return fmt.Sprintf("%d:%s (process %d)", s.epoch, s.leader, s.pid) }

func newWitness(t *testing.T) *witness {
	t.Helper()
	dir, err := os.MkdirTemp("", "witness") // a test's own directory may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &witness{t: t, socket: filepath.Join(dir, "s"), came: make(chan *shift, 10_000)}
	l, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go w.hear(c.(*net.UnixConn))
		}
	}()
	return w
}

// hear takes in what one process writes.
func (w *witness) hear(c *net.UnixConn) {
	defer c.Close()
	s := &shift{}
	if raw, err := c.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) {
			if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
				s.pid = int(cred.Pid)
			}
		})
	}
	for lines := bufio.NewScanner(c); lines.Scan(); fmt.Fprintln(c, "noted") {
		token, stamp, _ := strings.Cut(lines.Text(), " ")
		epoch, leader, _ := strings.Cut(token, ":")
		number, _ := strconv.ParseUint(epoch, 10, 64)
		at, _ := strconv.ParseInt(stamp, 10, 64)
		w.note(s, number, leader, at)
	}
}

// note takes in a write; a process writes under one leadership.
func (w *witness) note(s *shift, epoch uint64, leader string, at int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes++
	if s.from == 0 {
		s.epoch, s.leader, s.from, s.to = epoch, leader, at, at
		w.shifts = append(w.shifts, s)
		w.came <- s
	}
	if s.epoch != epoch || s.leader != leader {
		w.fault("%v writes as %d:%s", s, epoch, leader)
	}
	s.to = at
	for _, o := range w.shifts {
		if o != s && o.from <= s.to && s.from <= o.to {
			w.fault("%v and %v work at once, for %v", o, s, time.Duration(min(o.to, s.to)-max(o.from, s.from)))
		}
	}
	if s.epoch < w.highest && !slices.ContainsFunc(w.shifts, func(o *shift) bool { return o.epoch > s.epoch && o.from > at }) {
		w.fault("%v writes after epoch %d", s, w.highest)
	}
	w.highest = max(w.highest, s.epoch)
}

func (w *witness) fault(format string, args ...any) {
	if len(w.faults) < 20 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// next waits for a process of a leadership above epoch to write; nil: none has in time.
func (w *witness) next(epoch uint64, patience time.Duration) *shift {
	for late := time.After(patience); ; {
		select {
		case s := <-w.came:
			if s.epoch > epoch {
				return s
			}
		case <-late:
			return nil
		}
	}
}

// strike has something happen to the leader, and gives the next one. A leader that was
// replaced at that very moment is not meant: then it happens to the next.
func (w *witness) strike(leads *shift, name string, hit func(*shift)) (struck, next *shift) {
	w.t.Helper()
	for range 6 {
		struck = w.latest()
		hit(struck)
		if next = w.next(max(leads.epoch, struck.epoch), runtest.Patience/6); next != nil {
			return struck, next
		}
	}
	w.t.Fatalf("nobody has written after %v, struck by: %s", struck, name)
	return nil, nil
}

// latest is who has begun last: a command may be started again under one leadership.
func (w *witness) latest() *shift {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.MaxFunc(w.shifts, func(a, b *shift) int { return cmp.Compare(a.from, b.from) })
}

// judge says what was seen.
func (w *witness) judge() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		w.t.Error(f)
	}
	slices.SortFunc(w.shifts, func(a, b *shift) int { return cmp.Compare(a.from, b.from) })
	for i, s := range w.shifts[1:] {
		if before := w.shifts[i]; s.epoch < before.epoch || s.epoch == before.epoch && s.leader != before.leader {
			w.t.Errorf("%v comes after %v", s, before)
		}
	}
	for i, s := range w.shifts[1:] {
		w.t.Logf("%v begins %v after %v", s, time.Duration(s.from-w.shifts[i].to), w.shifts[i])
	}
	w.t.Logf("%d writes of %d processes, up to epoch %d", w.writes, len(w.shifts), w.highest)
}

// strike is something that happens to a leader, and what undoes it.
type strike struct {
	name       string
	hit, after func(c *crew, s *shift)
}

// resigning asks the leader to step down; it may just have been replaced.
func resigning(c *crew, s *shift) { c.post(s.leader, "/v1/resign", "") }

// post asks an agent, and tells whether it has done so.
func (c *crew) post(id, path, body string) bool {
	resp, err := http.Post("http://"+c.http[id]+path, "application/json", strings.NewReader(body))
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
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
			if id != s.leader && c.post(s.leader, "/v1/transfer", `{"id":"`+id+`"}`) {
				return
			}
		}
	}, nothing},
}

// send signals an agent, if it runs.
func (c *crew) send(id string, s syscall.Signal) { c.runs[id].Process.Signal(s) }

// toGuard signals the guard of a member, if there is one just now.
func (c *crew) toGuard(id string, signal syscall.Signal) {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.runs[id].Process.Pid))
	for _, file := range list {
		text, _ := os.ReadFile(file)
		for field := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(field)
			if line, _ := os.ReadFile("/proc/" + field + "/cmdline"); err == nil && strings.Contains(string(line), "\x00guard") {
				syscall.Kill(pid, signal)
			}
		}
	}
}

// sharpTimes make T 200 ms, so that many rounds take little time.
var sharpTimes = []string{"--heartbeat", "30ms", "--t-max", "50ms", "--t-process", "100ms"}

// Under a quorum no two leaders work at once, and none writes that is over, whatever
// happens to a leader's processes: somebody looks on who knows.
func TestAWitnessSeesOneLeader(t *testing.T) {
	w, dir := newWitness(t), t.TempDir() // before the crew, which uses it to its end
	c := newCrew(t, 3, append([]string{"--algorithm", "quorum", "--preempt=false", "--grace", "50ms"}, sharpTimes...))
	c.dir, c.command = dir, []string{"scribe", w.socket}
	c.startAll()
	leads := w.next(0, runtest.Patience)
	if leads == nil {
		t.Fatal("nobody leads")
	}
	for range cmp.Or(*witnessRounds, fulltest.Size(1, 10)) {
		for _, i := range rand.Perm(len(strikes)) {
			s := strikes[i]
			time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond)))) // at any moment between two beats
			struck, next := w.strike(leads, s.name, func(leader *shift) { s.hit(c, leader) })
			s.after(c, struck)
			leads = next
		}
	}
	w.judge()
}

// The same on machines of their own, whose network fails.
func TestAWitnessSeesOneLeaderWhenTheNetworkFails(t *testing.T) {
	l := newLAN(t, 3)
	w, dir := newWitness(t), t.TempDir() // before the crew, which uses it to its end
	c := newCrew(t, 3, append([]string{"--algorithm", "quorum", "--preempt=false", "--grace", "50ms", "--insecure"}, sharpTimes...))
	c.dir, c.command = dir, []string{"scribe", w.socket}
	c.wrap = func(i int, argv []string) []string { return l.in(i, argv...) }
	for i := range c.members {
		id := strconv.Itoa(i + 1)
		c.members[i], c.http[id] = id+"="+machineAddress(i+1), "127.0.0.1:7500"
	}
	c.startAll()
	leads := w.next(0, runtest.Patience)
	if leads == nil {
		t.Fatal("nobody leads")
	}
	cuts := []struct {
		name      string
		cut, mend func(machine int)
	}{
		{"the link is down", func(i int) { l.ip(switchRoom, "link", "set", wire(i), "down") }, func(i int) { l.ip(switchRoom, "link", "set", wire(i), "up") }},
		{"nothing leaves the leader", l.mute, func(i int) { l.unmute(i) }},
		{"the leader is parted from the rest", func(i int) { l.part(i) }, func(i int) { l.heal(i) }},
	}
	for range cmp.Or(*witnessRounds, fulltest.Size(1, 10)) {
		for _, i := range rand.Perm(len(cuts)) {
			machine := 0
			_, leads = w.strike(leads, cuts[i].name, func(leader *shift) {
				if machine != 0 {
					cuts[i].mend(machine) // it did not lead any more
				}
				machine, _ = strconv.Atoi(leader.leader)
				cuts[i].cut(machine)
			})
			cuts[i].mend(machine)
		}
	}
	w.judge()
}
