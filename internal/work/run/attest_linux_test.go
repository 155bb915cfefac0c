package run

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/net/wire"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

func init() { programs["watch-over"] = watchOver }

// watchOver is a process that has a guard and no command, and lives until it is killed.
func watchOver() {
	self, err := Self()
	if err != nil {
		os.Exit(1)
	}
	s, err := NewSentry(self, append([]string{os.Args[0], "guard"}, os.Args[2:]...), slog.New(slog.NewTextHandler(os.Stdout, nil)))
	if err != nil {
		os.Exit(1)
	}
	s.Swear(oathTo(os.Getenv("BATUTA_TEST_ATTEST")))
	for was := "?"; ; time.Sleep(time.Millisecond) {
		if why := s.Bars(); why != was {
			fmt.Printf("bars %q\n", why)
			was = why
		}
	}
}

// voter receives attestations.
type voter struct {
	addr string
	came chan *wire.Handshake
}

func newVoter(t *testing.T) voter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	v := voter{l.Addr().String(), make(chan *wire.Handshake, 10)}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			frame := make([]byte, wire.MaxAttestation)
			n, _ := c.Read(frame)
			if n == 0 { // from another test, which looked whether a port of its own is taken
				c.Close()
				continue
			}
			h, err := wire.DecodeHandshake(frame[min(n, wire.LengthSize):n])
			if err != nil {
				t.Error(err)
			}
			v.came <- h
			c.Close()
		}
	}()
	return v
}

func (v voter) next(t *testing.T) *wire.Handshake {
	t.Helper()
	select {
	case h := <-v.came:
		return h
	case <-time.After(runtest.Patience):
		t.Fatal("nothing is attested")
		return nil
	}
}

// agent starts this program as a process that swears to v. When it dies this process adopts its guard. A concurrent
// test that ends a guard of its own would kill it as an orphan, so these tests do not run in parallel.
func (v voter) agent(t *testing.T, program string, change func(*exec.Cmd), argv ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command(program, argv...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "BATUTA_TEST_ATTEST="+v.addr), os.Stderr
	if change != nil {
		change(cmd)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = StartChild(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); WaitChild(cmd) })
	return cmd, read(out)
}

// guardOf waits for the guard of an agent.
func guardOf(t *testing.T, agent int, but int) int {
	t.Helper()
	for late := time.Now().Add(runtest.Patience); time.Now().Before(late); time.Sleep(time.Millisecond) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", agent))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for field := range strings.FieldsSeq(string(text)) {
				pid, _ := strconv.Atoi(field)
				if line, _ := os.ReadFile("/proc/" + field + "/cmdline"); pid != but && strings.Contains(string(line), "\x00guard") {
					return pid
				}
			}
		}
	}
	t.Fatal("it has no guard")
	return 0
}

// stillRuns reports whether a process has not ended.
func stillRuns(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

// A guard attests when its agent is dead and nothing of the command is left, whatever session that
// is in, and not before.
func TestTheEndOfAnAgentIsAttestedOnceItsCommandIsGone(t *testing.T) {
	f, v := newFactory(t), newVoter(t)
	agent, _ := v.agent(t, os.Args[0], nil, append([]string{"keep"}, f.argv("deaf", "child", "far")...)...)
	var family []int
	for range 4 {
		family = append(family, f.Next().Pid)
	}
	select {
	case <-v.came:
		t.Fatal("it is attested while the agent lives")
	case <-time.After(100 * time.Millisecond): // time is what is tested here
	}
	agent.Process.Kill()
	h := v.next(t)
	for _, pid := range family {
		if stillRuns(pid) {
			t.Errorf("process %d of the command is left", pid)
		}
	}
	if want := oathTo(v.addr); h.Kind != wire.KindAttest || h.Token != want.Token || !bytes.Equal(h.Secret, want.Secret) {
		t.Errorf("attested: %+v", h)
	}
}

// What a guard may not kill may run on, as far as it can promise: it attests nothing.
func TestACommandOfAnotherUserIsNotAttested(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("makes a program of root's, and runs it as nobody")
	}
	f, v, program := newFactory(t), newVoter(t), setuid(t)
	plain := copyOf(t, filepath.Join(filepath.Dir(program), "batuta"), 0o755)
	agent, lines := v.agent(t, plain, func(c *exec.Cmd) {
		c.Dir = "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}, append([]string{"keep", program, "worker"}, f.Argv("root")...)...)
	w := f.Next()
	t.Cleanup(func() { syscall.Kill(w.Pid, syscall.SIGKILL) })
	expect(t, lines, "does not attest")
	guard := guardOf(t, agent.Process.Pid, 0)
	agent.Process.Kill()
	syscall.Kill(w.Pid, syscall.SIGKILL)
	f.Dies(w)
	for late := time.Now().Add(runtest.Patience); stillRuns(guard); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the guard does not end")
		}
	}
	select {
	case <-v.came:
		t.Error("it is attested")
	default:
	}
}

// An agent without a command has a guard too. A guard that was killed is replaced.
func TestASentryAttestsItsAgent(t *testing.T) {
	v := newVoter(t)
	agent, lines := v.agent(t, os.Args[0], nil, "watch-over")
	expect(t, lines, `bars ""`)
	first := guardOf(t, agent.Process.Pid, 0)
	syscall.Kill(first, syscall.SIGKILL)
	expect(t, lines, `bars "the guard has died"`)
	expect(t, lines, `bars ""`)
	guardOf(t, agent.Process.Pid, first)
	agent.Process.Kill()
	v.next(t)
}

// A command that ran under an earlier guard, which was killed, may have left something that its
// agent did not remove either: the next guard removes it, or attests nothing.
func TestAGuardThatRanNothingRemovesBeforeItAttests(t *testing.T) {
	v := newVoter(t)
	left := filepath.Join(t.TempDir(), "left")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	agent, lines := v.agent(t, os.Args[0], nil, "watch-over", left)
	expect(t, lines, `bars ""`)
	agent.Process.Kill()
	v.next(t)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("it is attested, and what was left is there: %v", err)
	}
	agent, lines = v.agent(t, os.Args[0], nil, "watch-over", left) // it is not there: the removal fails
	expect(t, lines, `bars ""`)
	guard := guardOf(t, agent.Process.Pid, 0)
	agent.Process.Kill()
	for late := time.Now().Add(runtest.Patience); stillRuns(guard); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the guard does not end")
		}
	}
	select {
	case <-v.came:
		t.Error("it is attested although nothing was removed")
	default:
	}
}

// A guard that dies after the program's file was replaced, as by an update, is replaced by the program
// that runs: a guard of another version may not understand it.
func TestAGuardIsOfTheProgramThatRuns(t *testing.T) {
	v := newVoter(t)
	program := copyOf(t, filepath.Join(t.TempDir(), "batuta"), 0o700)
	agent, lines := v.agent(t, program, nil, "watch-over")
	expect(t, lines, `bars ""`)
	if err := os.WriteFile(program+".new", []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(program+".new", program); err != nil {
		t.Fatal(err)
	}
	first := guardOf(t, agent.Process.Pid, 0)
	syscall.Kill(first, syscall.SIGKILL)
	expect(t, lines, `bars "the guard has died"`)
	expect(t, lines, `bars ""`)
	next := guardOf(t, agent.Process.Pid, first)
	for late := time.Now().Add(runtest.Patience); ; time.Sleep(time.Millisecond) { // it takes its name when it begins
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", next))
		if string(name) == "batuta\n" {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("the guard goes by the name %q, %v", name, err)
		}
	}
	agent.Process.Kill()
	v.next(t)
}

// A sentry that is closed before it starts another guard leaves none.
func TestAClosedSentryLeavesNoGuard(t *testing.T) {
	s := &Sentry{keeper: keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "guard"}, bare: true}}, ended: make(chan struct{})}
	s.Close()
	late, err := s.keeper.ready()
	if err != nil {
		t.Fatal(err)
	}
	s.keep(late)
	if s.keeper.guard != nil {
		t.Error("it has one still")
	}
}

// A guard attests nothing while there is none, nor once it has died, although it ran nothing then.
func TestAnIdleGuardThatDiesIsReported(t *testing.T) {
	t.Parallel()
	k := keeper{starter: starter{program: os.Args[0], argv: []string{os.Args[0], "guard"}}}
	defer k.close()
	bars := func(want string) {
		t.Helper()
		for late := time.Now().Add(runtest.Patience); k.Bars() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(late) {
				t.Fatalf("%q, want %q", k.Bars(), want)
			}
		}
	}
	oath := oathTo("")
	oath.Members = nil
	k.Swear(oath)
	time.Sleep(50 * time.Millisecond) // time is what is tested here
	bars(unsworn)
	for range 2 {
		g, err := k.ready()
		if err != nil {
			t.Fatal(err)
		}
		bars("")
		g.cmd.Process.Kill()
		bars(guardDied)
	}
}
