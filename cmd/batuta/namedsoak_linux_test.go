package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// longestGap is how long a named election may be without work, what the machine held up not counted: processors that did
// not come, or a process that could not start or end.
const longestGap = 2 * time.Second

// Named elections of a quorum of three are led all the time while members are killed, frozen, stopped and drained at
// random, and elections handed over: a gap lasts two seconds at most, and no two leaders work at once.
// BATUTA_TEST_NAMED_SOAK=30m has it last so long.
func TestNamedElectionsAreLedThroughRandomFaults(t *testing.T) {
	t.Parallel()
	length := fulltest.Size(10*time.Second, time.Minute)
	if text := os.Getenv("BATUTA_TEST_NAMED_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal("BATUTA_TEST_NAMED_SOAK is a length, such as 30m: ", err)
		}
	}
	dir := stalltest.Dir(t)
	file := filepath.Join(dir, "elections")
	c := newCrew(t, 3, slices.Concat(rollQuorum, sharpTimes, []string{"--elections-file", file, "--events", "off"}))
	c.dir, c.verb, c.command = dir, "agent", []string{}
	witnesses := map[string]*witness{}
	processes := stalltest.StartProcesses(t, 20*time.Millisecond, func() *exec.Cmd {
		return &exec.Cmd{Path: os.Args[0], Args: []string{"idler"}} // of the same file as the work
	})
	var lines []string
	for i := range 6 {
		name := fmt.Sprint("shard-", i)
		witnesses[name] = newWitness(t)
		witnesses[name].watch = c.watch
		lines = append(lines, name+" scribe "+witnesses[name].socket)
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.startAll()
	for name, w := range witnesses {
		if w.next(0, runtest.Patience) == nil {
			t.Fatalf("no member works for %s", name)
		}
	}
	c.agree("at the start")
	counts := map[string]int{}
	began, from := time.Now(), bootNow()
	for time.Since(began) < length && !t.Failed() {
		id := fmt.Sprint(1 + rand.IntN(3))
		name := fmt.Sprint("shard-", rand.IntN(len(witnesses)))
		kind, fault := faultOf(c, id, name)
		counts[kind]++
		fault()
		c.agree("after " + kind)
		time.Sleep(longestGap + time.Duration(rand.Int64N(int64(time.Second)))) // one fault a gap
	}
	until := bootNow()
	t.Logf("%v: %v", time.Since(began).Round(time.Second), counts)
	for name, w := range witnesses {
		w.judge()
		w.gaps(name, from, until, processes)
	}
	if t.Failed() {
		c.explain()
	}
}

func init() { programs["idler"] = func() { time.Sleep(time.Hour) } }

// faultOf chooses something that happens to a member, or an election.
func faultOf(c *crew, id, name string) (kind string, fault func()) {
	again := func() { <-c.dead[id]; c.start(id) }
	switch rand.IntN(6) {
	case 0:
		return "killed", func() { c.send(id, syscall.SIGKILL); again() }
	case 1:
		return "stopped", func() { c.send(id, syscall.SIGTERM); again() }
	case 2:
		return "frozen", func() {
			c.send(id, syscall.SIGSTOP)
			time.Sleep(time.Duration(rand.Int64N(int64(2 * time.Second))))
			c.send(id, syscall.SIGCONT)
		}
	case 3:
		return "resigned", func() { c.ask("POST", id, "/v1/resign", "") }
	case 4:
		return "handed over", func() { c.ask("POST", id, "/v1/transfer", `{"id":"`+id+`","election":"`+name+`"}`) }
	}
	return "drained", func() {
		c.ask("POST", id, "/v1/drain", `{"id":"`+id+`"}`)
		c.ask("POST", id, "/v1/undrain", `{"id":"`+id+`"}`)
	}
}

// gaps reports each time of more than longestGap without any write, and the longest of all.
func (w *witness) gaps(name string, from, until int64, processes *stalltest.Processes) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(w.shifts, func(a, b *shift) int { return cmp.Compare(a.from, b.from) })
	at := func(stamp int64) time.Time { return time.Now().Add(time.Duration(stamp - bootNow())) }
	last, longest := from, time.Duration(0)
	for _, s := range append(slices.Clone(w.shifts), &shift{from: until, to: until}) {
		if gap := time.Duration(s.from - last); s.from > last {
			longest = max(longest, gap)
			given, held := w.watch.Given(at(last), at(s.from)), processes.Held(at(last), at(s.from))
			if min(given, gap-held) > longestGap {
				w.t.Errorf("%s: no member worked for %v before %v; the processors gave %v of it, and a process waited %v to start or end", name, gap, s, given, held)
			}
		}
		last = max(last, s.to)
	}
	w.t.Logf("%s: %d leaderships, at most %v without work", name, len(w.shifts), longest.Round(time.Millisecond))
}
