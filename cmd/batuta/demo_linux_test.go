package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// However the demo ends, its members end with it.
func TestDemoLeavesNothingBehind(t *testing.T) {
	for _, tt := range []struct {
		signal    syscall.Signal // SIGPIPE: its output is read no longer
		code      int            // -1: ended by the signal
		algorithm string
	}{{syscall.SIGINT, cli.Failed, "bully"}, {syscall.SIGTERM, cli.Failed, "quorum"}, {syscall.SIGPIPE, cli.Failed, "quorum"}, {syscall.SIGKILL, -1, "bully"}} {
		t.Run(tt.signal.String(), func(t *testing.T) {
			demo := exec.Command(os.Args[0])
			demo.Args = []string{"batuta", "demo", "--nodes", "3", "--algorithm", tt.algorithm}
			temporary := stalltest.Dir(t)
			demo.Env = append(os.Environ(), "TMPDIR="+temporary)
			out, err := demo.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := demo.Start(); err != nil {
				t.Fatal(err)
			}
			awaitLine(t, out, " leads, epoch")
			children := childrenOf(t, demo.Process.Pid)
			if len(children) < 2 { // by now it may have killed the leader, which then starts again
				t.Errorf("the demo of 3 members has %d children", len(children))
			}
			if tt.signal == syscall.SIGPIPE {
				err = out.Close()
			} else {
				err = demo.Process.Signal(tt.signal)
			}
			if err != nil {
				t.Fatal(err)
			}
			demo.Wait()
			if code := demo.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			for _, child := range children {
				awaitEnd(t, child)
			}
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("temporary files stay: %v (%v)", left, err)
			}
		})
	}
}

func awaitLine(t *testing.T, out io.Reader, want string) {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), want) {
			return
		}
	}
	t.Fatalf("the demo ended without saying %q", want)
}

// childrenOf gives a handle of each child, which stays good when the child is
// gone and its number taken by another.
func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	lists, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var handles []int
	for _, list := range lists {
		pids, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range strings.Fields(string(pids)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			handle, err := unix.PidfdOpen(child, 0)
			if err == unix.ESRCH {
				continue // it has ended meanwhile
			} else if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Close(handle) })
			handles = append(handles, handle)
		}
	}
	return handles
}

func awaitEnd(t *testing.T, process int) {
	t.Helper()
	deadline := time.Now().Add(runtest.Patience)
	for {
		fds := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds()))
		switch {
		case err == unix.EINTR:
		case err != nil:
			t.Fatal(err)
		case n == 0:
			t.Fatalf("it still runs after %v", runtest.Patience)
		default:
			return
		}
	}
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	var story struct {
		Algorithm     string
		Nodes, Rounds int
		Steps         []demoStep
	}
	answer(t, &story, "demo", "--nodes", "3", "--rounds", "2", "--json")
	var steps []string
	for i, s := range story.Steps {
		steps = append(steps, s.Step)
		if s.Leader == "" || s.Agree < 2 || s.Took <= 0 || i > 0 && s.Epoch < story.Steps[i-1].Epoch {
			t.Errorf("step %d makes no sense: %+v", i, s)
		}
	}
	if got, want := strings.Join(steps, " "), "start crash return resign crash return resign"; got != want {
		t.Errorf("steps %s, want %s", got, want)
	}
}

func TestBenchFailover(t *testing.T) {
	t.Parallel()
	for _, measured := range append(faults(), "resign quorum") {
		t.Run(measured, func(t *testing.T) {
			fault, algorithm, _ := strings.Cut(measured, " ")
			algorithm = cmp.Or(algorithm, "bully")
			watch, began := stalltest.Start(t), time.Now()
			var f failoverFigures
			err := answers(t, &f, "bench", "failover", "--algorithm", algorithm, "--nodes", "3", "--rounds", "2", "--fault", fault, "--json")
			stall := watch.Longest(began, time.Now())
			switch {
			case err == nil:
			case f.ExtraChanges != nil && *f.ExtraChanges > 0 && stall > election.DefaultTProcess:
				t.Logf("leadership changed more often than was asked for; the machine stalled for %v: %v", stall, err)
			default:
				t.Fatal(err)
			}
			if counted := f.Returned != nil && f.ExtraChanges != nil; counted != (fault == "resign") {
				t.Errorf("what follows a resignation is counted: %v, after %s", counted, fault)
			}
			if f.Fault != fault || f.Algorithm != algorithm || f.Nodes != 3 || f.Rounds != 2 {
				t.Errorf("figures of something else: %+v", f)
			}
			if _, err := os.Stat(f.DataDir); !f.Durable || !filepath.IsAbs(f.DataDir) || !os.IsNotExist(err) {
				t.Errorf("on disk: %v, below %s, which is left: %v", f.Durable, f.DataDir, err)
			}
			if f.First.Median <= 0 || f.All.Median < f.First.Median || f.All.Max < f.All.P99 {
				t.Errorf("figures make no sense: %+v", f)
			}
			if f.Sync.Median <= 0 || f.FloorFirst.Median <= 0 || f.FloorAll.Median < f.FloorFirst.Median || f.Machine.Cores < 1 || f.Machine.Go == "" {
				t.Errorf("the floor and the machine make no sense: %+v", f)
			}
			if f.RatioFirst != f.First.Median/f.FloorFirst.Median || f.RatioAll != f.All.Median/f.FloorAll.Median {
				t.Errorf("the ratios are not those of the medians: %+v", f)
			}
			// A leader that the machine has held up before it froze was silent for longer.
			if fault == "freeze" && f.First.Median+stall.Seconds()*1000 < 400 {
				t.Errorf("a frozen leader was replaced after %v ms, before its silence was long enough", f.First.Median)
			}
		})
	}
}

func TestBenchFailoverWithoutADisk(t *testing.T) {
	var f failoverFigures
	answer(t, &f, "bench", "failover", "--nodes", "2", "--rounds", "1", "--data-dir", "none", "--json")
	if f.Durable || f.DataDir != "" || f.Sync.Median != 0 || f.FloorAll.Median <= 0 {
		t.Errorf("nothing is saved, and it says %+v", f)
	}
}

// Each member leads its share, and each loss and the drain give one away.
func TestBenchElections(t *testing.T) {
	t.Parallel()
	var f electionsFigures
	answer(t, &f, "bench", "elections", "--nodes", "3", "--elections", "30", "--rounds", "1", "--rest", "1s", "--json")
	if f.Elections != 30 || f.Nodes != 3 {
		t.Errorf("figures of something else: %+v", f)
	}
	for what, ms := range map[string]float64{"cold start": f.AllLed, "loss of a member": f.MemberLoss.Median, "loss of the coordinator": f.CoordinatorLoss.Median, "drain": f.Drain} {
		if ms <= 0 {
			t.Errorf("%s: %v ms", what, ms)
		}
	}
	if f.RSS <= 1 || f.Bytes <= 0 || f.CPU < 0 {
		t.Errorf("at rest: %+v", f)
	}
}

// answer is answers of a command that must not fail.
func answer(t *testing.T, v any, args ...string) {
	t.Helper()
	if err := answers(t, v, args...); err != nil {
		t.Fatal(err)
	}
}

// answers runs a batuta command and reads its JSON into v, which must know all its keys.
func answers(t *testing.T, v any, args ...string) (failed error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Args = append([]string{"batuta"}, args...)
	out, err := cmd.Output()
	if err != nil {
		var said []byte
		if exit, ok := err.(*exec.ExitError); ok {
			said = exit.Stderr
		}
		failed = fmt.Errorf("batuta %s: %w\n%s", strings.Join(args, " "), err, said)
		if len(out) == 0 {
			return failed
		}
	}
	in := json.NewDecoder(strings.NewReader(string(out)))
	in.DisallowUnknownFields()
	if err := in.Decode(v); err != nil {
		t.Fatalf("batuta %s: %v in %s", strings.Join(args, " "), err, out)
	}
	return failed
}
