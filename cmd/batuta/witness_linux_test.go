package main

import (
	"bufio"
	"cmp"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

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
	watch  *stalltest.Watch

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
	w := &witness{t: t, came: make(chan *shift, 10_000)}
	w.socket = runtest.Serve(t, w.hear)
	return w
}

// hear takes in what one process writes.
func (w *witness) hear(c *net.UnixConn, pid int) {
	s := &shift{pid: pid}
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

// well reports whether all that was seen is as it should be.
func (w *witness) well() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.faults) == 0
}

// next waits for a process of a leadership above epoch to write; nil: none has in time,
// what the machine held up not counted.
func (w *witness) next(epoch uint64, patience time.Duration) *shift {
	began := time.Now()
	for {
		left := patience - w.watch.Given(began, time.Now())
		if left <= 0 {
			return nil
		}
		select {
		case s := <-w.came:
			if s.epoch > epoch {
				return s
			}
		case <-time.After(left):
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
	w.t.Logf("%d writes of %d processes, up to epoch %d", w.writes, len(w.shifts), w.highest)
}
