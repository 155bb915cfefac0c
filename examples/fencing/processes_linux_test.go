package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
)

// This file takes a history of real processes with faults: three agents under a quorum run
// a scribe on their leader, which writes and reads a register (see server_linux_test.go) under
// its token. A write of each leader is on its way while the fault befalls it, and arrives when
// another has written.

// patience is for what happens in milliseconds, unless the machine stands still.
const patience = 90 * time.Second

// agents are the processes of a cluster, by id.
type agents struct {
	t      *testing.T
	args   map[string][]string
	env    []string
	runs   map[string]*exec.Cmd
	frozen []int // processes that were stopped by a fault
}

// build gives the path of the batuta that this module is beside.
func build(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "batuta")
	cmd := exec.Command("go", "build", "-o", file, "./cmd/batuta")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return file
}

// newAgents starts three agents, whose leader runs a scribe. T is 200 ms.
func newAgents(t *testing.T, batuta string, s *server) *agents {
	t.Helper()
	ports, err := freeport.Find(3)
	if err != nil {
		t.Fatal(err)
	}
	a := &agents{t: t, args: map[string][]string{}, runs: map[string]*exec.Cmd{},
		env: append(os.Environ(), "FENCING_SCRIBE="+s.socket, "FENCING_HISTORY="+s.history)}
	dir := stalltest.Dir(t)
	t.Cleanup(a.end) // before dir goes
	for i, port := range ports {
		id := strconv.Itoa(i + 1)
		a.args[id] = []string{batuta, "run", "--id", id, "--algorithm", "quorum", "--preempt=false", "--log-level", "error", "--data-dir", filepath.Join(dir, id),
			"--listen", fmt.Sprintf("127.0.0.1:%d", port), "--grace", "50ms", "--heartbeat", "30ms", "--t-max", "50ms", "--t-process", "100ms"}
		for j, other := range ports {
			a.args[id] = append(a.args[id], "--member", fmt.Sprintf("%d=127.0.0.1:%d", j+1, other))
		}
		a.args[id] = append(a.args[id], "--", os.Args[0])
	}
	for id := range a.args {
		a.start(id)
	}
	return a
}

func (a *agents) start(id string) {
	a.t.Helper()
	cmd := exec.Command(a.args[id][0], a.args[id][1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = a.env, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	a.runs[id] = cmd
}

// kill ends an agent; its guard ends the command.
func (a *agents) kill(id string) {
	a.runs[id].Process.Kill()
	a.runs[id].Wait()
}

func (a *agents) end() {
	a.thaw()
	for id := range a.runs {
		a.kill(id)
	}
}

// freeze stops a process until thaw.
func (a *agents) freeze(pid int) {
	syscall.Kill(pid, syscall.SIGSTOP)
	a.frozen = append(a.frozen, pid)
}

func (a *agents) thaw() {
	for _, pid := range a.frozen {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	a.frozen = nil
}

// guards are the guards of a member's command.
func (a *agents) guards(id string) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", a.runs[id].Process.Pid))
	for _, file := range lists {
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

// fault is what befalls the member that leads, and how it comes back.
type fault struct {
	name   string
	befall func(a *agents, id string, scribe int)
	mend   func(a *agents, id string)
}

func startAgain(a *agents, id string) { a.start(id) }

func goOn(a *agents, _ string) { a.thaw() }

var faults = []fault{
	{"the agent is killed", func(a *agents, id string, _ int) { a.kill(id) }, startAgain},
	{"the agent is stopped", func(a *agents, id string, _ int) { a.freeze(a.runs[id].Process.Pid) }, goOn},
	{"the scribe is stopped and the agent killed", func(a *agents, id string, scribe int) {
		a.freeze(scribe)
		a.kill(id)
	}, func(a *agents, id string) { a.thaw(); a.start(id) }},
	{"the scribe is killed", func(_ *agents, _ string, scribe int) { syscall.Kill(scribe, syscall.SIGKILL) }, func(a *agents, id string) {
		a.kill(id) // it would stand back for a while
		a.start(id)
	}},
	{"agent and guard are stopped, the scribe writes on", func(a *agents, id string, _ int) {
		a.freeze(a.runs[id].Process.Pid)
		for _, guard := range a.guards(id) {
			a.freeze(guard)
		}
	}, goOn},
}

// historyOf has each fault befall a leader so many times, and gives what all clients
// have seen.
func historyOf(t *testing.T, batuta string, checks bool, rounds int, faults []fault) []porcupine.Operation {
	t.Helper()
	s := newServer(t, checks)
	a := newAgents(t, batuta, s)
	stop := s.readers(2)
	for range rounds {
		for _, f := range faults {
			late := s.holdWrite(t)
			f.befall(a, late.token.leader, late.pid)
			s.awaitWrite(t, late.token.epoch)
			close(late.release) // now it arrives
			s.awaitReads(t, 4)
			f.mend(a, late.token.leader)
		}
	}
	s.awaitReads(t, 4)
	a.end()
	stop()
	history := s.operations(t)
	t.Logf("%d calls, %d refused", len(history), s.refused)
	if late := rounds * len(faults); checks && s.refused < late {
		t.Errorf("%d calls were refused, and %d writes came too late", s.refused, late)
	}
	return history
}

// What leaders that are killed and stopped write and read, and what others read meanwhile,
// could have happened one after the other, each write of a lower token refused.
func TestTheHistoryOfProcessesIsLinearizable(t *testing.T) {
	history := historyOf(t, build(t), true, fulltest.Size(1, 4), faults)
	if got := porcupine.CheckOperationsTimeout(fencedRegister, history, patience); got != porcupine.Ok {
		t.Errorf("no order explains what %d calls have seen: %s", len(history), got)
	}
}

// A register that does not look at tokens takes the late write, and is found out by each
// fault alone.
func TestTheHistoryTellsOfARegisterThatDoesNotCheck(t *testing.T) {
	batuta := build(t)
	for _, f := range fulltest.Size(faults[:1], faults) {
		history := historyOf(t, batuta, false, 1, []fault{f})
		if got := porcupine.CheckOperationsTimeout(fencedRegister, history, patience); got != porcupine.Illegal {
			t.Errorf("%s: %d calls of a register that takes every token pass for those of a fenced one: %s", f.name, len(history), got)
		}
	}
}

// fencedRegister is what the server promises, when it checks.
var fencedRegister = porcupine.Model{
	Init: func() any { return stored{} },
	Step: func(state, in, out any) (bool, any) {
		s, call, got := state.(stored), in.(request), out.(answer)
		if call.token == (mark{}) { // a reader
			return got.value == s.value, s
		}
		if !s.token.allows(call.token) {
			return got.unknown || got.refused, s
		}
		s.token = call.token
		if call.write {
			s.value = call.value
		}
		return got.unknown || !got.refused && got.value == s.value, s
	},
}

// operations are all calls that were made; one whose answer nobody has had may take effect
// at any time after it.
func (s *server) operations(t *testing.T) []porcupine.Operation {
	t.Helper()
	files, err := os.ReadDir(s.history)
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Clone(s.read)
	for k, file := range files {
		text, err := os.ReadFile(filepath.Join(s.history, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		open := false
		lines := strings.SplitAfter(string(text), "\n")
		for _, line := range lines[:len(lines)-1] { // after the last newline nothing counts: the process died in it
			at, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			n, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				t.Fatalf("%s: %q", file.Name(), line)
			}
			if !open {
				call, _ := parseRequest(rest)
				all = append(all, porcupine.Operation{ClientId: 10 + k, Input: call, Call: n, Output: answer{unknown: true}, Return: math.MaxInt64})
			} else {
				last := &all[len(all)-1]
				last.Output, last.Return = parseAnswer(rest), n
			}
			open = !open
		}
	}
	return all
}
