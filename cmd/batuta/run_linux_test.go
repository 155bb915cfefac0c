package main

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// crew is a cluster of "batuta run" processes, all with the same command.
type crew struct {
	*runtest.Factory
	watch   *stalltest.Watch
	began   time.Time
	members []string          // --member of each
	http    map[string]string // by id
	flags   []string
	words   []string
	verb    string                              // default "run"
	command []string                            // in place of a worker with these words; empty, not nil: none
	memory  string                              // a directory in memory, which is removed after they have ended
	dir     string                              // of their data directories; empty: they keep nothing
	wrap    func(i int, argv []string) []string // has it run on machine i; nil: on this one
	lan     *lan                                // on whose machines they run; nil: on this one
	runs    map[string]*exec.Cmd
	dead    map[string]chan struct{} // closed when the process is
}

func newCrew(t testing.TB, n int, flags []string, words ...string) *crew {
	t.Helper()
	ports, err := freeport.Find(2 * n)
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{Factory: runtest.NewFactory(t), watch: stalltest.Start(t), memory: stalltest.Dir(t), began: time.Now(), flags: flags, words: words,
		http: map[string]string{}, runs: map[string]*exec.Cmd{}, dead: map[string]chan struct{}{}}
	for i := range n {
		id := strconv.Itoa(i + 1)
		c.members = append(c.members, fmt.Sprintf("%s=127.0.0.1:%d", id, ports[i]))
		c.http[id] = fmt.Sprintf("127.0.0.1:%d", ports[n+i])
	}
	t.Cleanup(c.killAll)
	return c
}

func (c *crew) startAll() {
	for id := range c.http {
		c.start(id)
	}
}

func (c *crew) start(id string) {
	c.T.Helper()
	i, _ := strconv.Atoi(id)
	_, listen, _ := strings.Cut(c.members[i-1], "=")
	args := []string{cmp.Or(c.verb, "run"), "--id", id, "--listen", listen, "--http", c.http[id], "--log-level", "error"}
	for _, m := range c.members {
		args = append(args, "--member", m)
	}
	if c.dir != "" {
		args = append(args, "--data-dir", filepath.Join(c.dir, id))
	}
	args = append(append([]string{"batuta"}, args...), c.flags...)
	switch {
	case c.command == nil:
		args = append(append(args, "--", "worker"), c.Argv(c.words...)...)
	case len(c.command) > 0:
		args = append(append(args, "--"), c.command...)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Args = args
	if c.wrap != nil {
		args = c.wrap(i, args)
		cmd = exec.Command(args[0], args[1:]...)
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	dead := make(chan struct{})
	c.runs[id], c.dead[id] = cmd, dead
	go func() { cmd.Wait(); close(dead) }()
}

func (c *crew) signal(id string, s syscall.Signal) {
	c.T.Helper()
	if err := c.runs[id].Process.Signal(s); err != nil {
		c.T.Fatal(err)
	}
}

// ends waits for the process of a member, and gives its exit code.
func (c *crew) ends(id string) int {
	c.T.Helper()
	select {
	case <-c.dead[id]:
	case <-time.After(runtest.Patience):
		c.T.Fatalf("member %s runs on", id)
	}
	return c.runs[id].ProcessState.ExitCode()
}

func (c *crew) killAll() {
	for id, cmd := range c.runs {
		cmd.Process.Kill()
		<-c.dead[id]
	}
}

func (c *crew) resign(id string) { c.calls(id, "resign") }

// calls has the member do what an operator may ask of it.
func (c *crew) calls(id, what string) {
	c.T.Helper()
	resp, err := http.Post("http://"+c.http[id]+"/v1/"+what, "", nil)
	if err != nil {
		c.T.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
		c.T.Fatalf("%s: %s %s", what, resp.Status, body)
	}
}

// family waits for the command and what it forks under one leadership, in whatever order
// they come. A leadership may end before all of its family have said hello.
func (c *crew) family(size int) (command *runtest.Worker, all []*runtest.Worker) {
	c.T.Helper()
	families := map[string][]*runtest.Worker{}
	for len(all) < size || command == nil {
		w := c.Next()
		all = append(families[w.Token], w)
		families[w.Token], command = all, nil
		if i := slices.IndexFunc(all, func(w *runtest.Worker) bool { return w.Words == strings.Join(c.words, ",") }); i >= 0 {
			command = all[i]
		}
	}
	c.alone(command)
	return command, all
}

// alone checks that a command has found no other at work.
func (c *crew) alone(w *runtest.Worker) {
	c.T.Helper()
	// A lease ends a heartbeat, 100 ms, before others lead: a guard that the machine holds
	// up for as long is late.
	if stall := c.watch.Longest(c.began, time.Now()); !w.Alone && stall < defaults.Heartbeat/2 {
		c.T.Errorf("the command of %s found another at work, and the machine stalled for %v at most", w.Token, stall)
	}
}

// leaderOf is the id in a token, epoch:id.
func leaderOf(w *runtest.Worker) string {
	_, id, _ := strings.Cut(w.Token, ":")
	return id
}

// settle waits until member id, the highest, has the command run.
func (c *crew) settle(id string, size int) (command *runtest.Worker, all []*runtest.Worker) {
	c.T.Helper()
	for command == nil || leaderOf(command) != id {
		command, all = c.family(size)
	}
	return command, all
}

func lockFile(t *testing.T) string { return "lock=" + t.TempDir() + "/lock" }

// startUp is how long a worker takes from its start to its hello: the median of
// some, less what the machine held up.
func startUp(t *testing.T, watch *stalltest.Watch) time.Duration {
	t.Helper()
	f := runtest.NewFactory(t)
	var took []time.Duration
	for range 9 {
		cmd := exec.Command(os.Args[0])
		cmd.Args = append([]string{"worker"}, f.Argv()...)
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		took = append(took, watch.Given(began, f.Next().Came))
		cmd.Process.Kill()
		cmd.Wait()
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// When the leading batuta is killed another member's command runs soon.
func TestRunPassesOnSoon(t *testing.T) {
	watch := stalltest.Start(t)
	own := startUp(t, watch)
	c := newCrew(t, 3, nil)
	c.startAll()
	_, old := c.settle("3", 1)
	var took []time.Duration
	for range fulltest.Size(7, 30) {
		began := time.Now()
		c.signal("3", syscall.SIGKILL)
		command, _ := c.family(1)
		took = append(took, watch.Given(began, command.Came)-own)
		c.Dies(old[0])
		c.ends("3")
		c.start("3")
		_, old = c.settle("3", 1) // it takes the lead back
	}
	slices.Sort(took)
	t.Logf("kill -9 to the next command running, beyond its own start-up of %v: median %v, longest %v",
		own, took[len(took)/2], took[len(took)-1])
	if median := took[len(took)/2]; median > defaults.T()/2 {
		t.Errorf("median %v: a crash is seen by the end of a connection, not by silence for %v", median, defaults.T())
	}
}

// The command hears of a loss at once.
func TestRunStopsAtOnce(t *testing.T) {
	watch := stalltest.Start(t)
	attempts(t, watch, func(a *attempt) {
		c := newCrew(a, 2, []string{"--preempt=false"})
		c.startAll()
		var took []time.Duration
		for range 9 {
			command, _ := c.family(1)
			began := time.Now()
			c.resign(leaderOf(command))
			c.Awaits(command, "terminated")
			took = append(took, watch.Given(began, time.Now()))
		}
		slices.Sort(took)
		median := took[len(took)/2]
		a.Logf("request to resign to SIGTERM heard: median %v, longest %v", median, took[len(took)-1])
		if median > defaults.TMax {
			a.Errorf("median %v: the command receives that at once", median)
		}
	})
}

// Whoever kills the leading batuta kills its command, and all that this has forked.
func TestRunWhenItsLeaderIsKilled(t *testing.T) {
	c := newCrew(t, 2, []string{"--preempt=false"}, "deaf", "child", "stray")
	c.startAll()
	for range 3 {
		command, all := c.family(3)
		id := leaderOf(command)
		c.signal(id, syscall.SIGKILL)
		for _, w := range all {
			c.Dies(w)
		}
		c.ends(id)
		c.start(id)
	}
}

// unhurried members suspect nobody, whatever holds the machine up.
var unhurried = []string{"--t-max", "2s", "--t-process", "6s"}

// Leadership passes only to where nobody of the last command is left, however
// little that one hears.
func TestRunPassesOnAlone(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 3, append(unhurried, "--grace", "20ms", "--preempt=false"), "deaf", "child", "stray", lockFile(t))
	c.startAll()
	command, all := c.family(3)
	for range fulltest.Size(10, 100) {
		old, epoch, resigned := all, command.Token, leaderOf(command)
		c.resign(resigned)
		command, all = c.family(3)
		c.calls(resigned, "campaign") // else all three have soon resigned, and no member leads for 2·T
		if command.Token == epoch {
			t.Errorf("two commands under one token %s", epoch)
		}
		for _, w := range old {
			c.Dies(w)
		}
	}
	for id := range c.runs {
		c.signal(id, syscall.SIGTERM)
	}
	for id := range c.runs {
		if code := c.ends(id); code != cli.Done {
			t.Errorf("member %s ended with exit code %d", id, code)
		}
	}
	for _, w := range all {
		c.Dies(w)
	}
}

// A batuta that is frozen cannot stop its command; the guard does, and before
// another member's starts.
func TestRunWhenItsLeaderIsFrozen(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 3, []string{"--grace", "20ms"}, "deaf", "child", lockFile(t))
	c.startAll()
	_, all := c.settle("3", 2)
	c.signal("3", syscall.SIGSTOP)
	command, heirs := c.family(2)
	if leaderOf(command) != "2" {
		t.Errorf("%s leads in the place of 3", leaderOf(command))
	}
	for _, w := range all {
		c.Dies(w)
	}
	c.signal("3", syscall.SIGCONT)
	c.settle("3", 2) // thawed, it takes the lead back
	for _, w := range heirs {
		c.Dies(w)
	}
}

func TestRunTakesSignals(t *testing.T) {
	t.Parallel()
	// Under nohup, or in a script's background, signals are ignored, and what
	// this process starts inherits that; a handler of our own it does not.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP, syscall.SIGINT)
	defer signal.Stop(caught)
	for _, last := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(last.String(), func(t *testing.T) {
			c := newCrew(t, 1, append(unhurried, "--grace", "1s"), "child")
			c.startAll()
			_, all := c.family(2)
			for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, last} {
				c.signal("1", s)
				for _, w := range all {
					c.Awaits(w, s.String())
				}
			}
			if code := c.ends("1"); code != cli.Done {
				t.Errorf("exit code %d", code)
			}
			for _, w := range all {
				c.Dies(w)
			}
		})
	}
}

// The second signal does not wait for the grace to end.
func TestRunSignalledTwiceKills(t *testing.T) {
	t.Parallel()
	c := newCrew(t, 1, append(unhurried, "--grace", "1h"), "deaf")
	c.startAll()
	w, _ := c.family(1)
	c.signal("1", syscall.SIGTERM)
	c.Awaits(w, "terminated")
	time.Sleep(sameSignal) // one that comes sooner is the first, sent twice
	c.signal("1", syscall.SIGTERM)
	c.Dies(w)
	if code := c.ends("1"); code != cli.Done {
		t.Errorf("exit code %d", code)
	}
}

// Whoever always fails lets another try, also one that ranks lower than others
// that have failed.
func TestRunLetsAnotherTry(t *testing.T) {
	c := newCrew(t, 3, nil, "exit=1")
	c.startAll()
	tried := map[string]bool{}
	for len(tried) < 3 {
		tried[leaderOf(c.Next())] = true
	}
}

// What a client reports of a member during the pause after a failed command holds after the pause, too.
func TestAClientsReportOutlivesThePauseOfRun(t *testing.T) {
	c := newCrew(t, 1, nil)
	failed, again := filepath.Join(t.TempDir(), "failed"), filepath.Join(t.TempDir(), "again")
	c.command = []string{"sh", "-c", "test -e " + failed + " && exec touch " + again + "; touch " + failed + "; exit 1"}
	c.start("1")
	put := func(body string) {
		t.Helper()
		req, _ := http.NewRequest(http.MethodPut, "http://"+c.http["1"]+"/v1/health", strings.NewReader(body))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status)
		}
	}
	exists := func(file string) bool { _, err := os.Stat(file); return err == nil }
	for end := time.Now().Add(runtest.Patience); !exists(failed); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the command was not run")
		}
	}
	put(`{"healthy":false,"why":"its disk is replaced"}`)
	time.Sleep(4 * time.Second) // the pause is a second, and then it would lead
	if exists(again) {
		t.Fatal("the command runs on a member that a client reports as unhealthy")
	}
	put(`{"healthy":true}`)
	if code := c.ends("1"); code != cli.Done || !exists(again) {
		t.Errorf("exit code %d; the command ran again: %v", code, exists(again))
	}
}
