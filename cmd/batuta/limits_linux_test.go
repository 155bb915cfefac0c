//go:build !race

package main

// This file has the limits of a machine. The race detector has threads and memory of its own, so that
// those of this file show nothing with it.

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// A member with 64 open files still saves and lets members in while clients take all connections that they may.
func TestClientsLeaveOpenFilesToMembers(t *testing.T) {
	ports, err := freeport.Find(3)
	if err != nil {
		t.Fatal(err)
	}
	address := func(i int) string { return fmt.Sprint("127.0.0.1:", ports[i]) }
	log := filepath.Join(t.TempDir(), "log")
	first := limited(t, `ulimit -n 64; exec -a batuta "$0" agent --id 1 --algorithm quorum --data-dir "$1" --listen "$2" --http "$3" 2>"$4"`,
		filepath.Join(t.TempDir(), "data"), address(0), address(1), log)
	said(t, first, "leader")
	for range 100 {
		c, err := net.Dial("tcp", address(1))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	second := startLone(t, "--id", "2", "--algorithm", "quorum", "--data-dir", filepath.Join(t.TempDir(), "data"), "--join", address(0))
	said(t, bufio.NewScanner(second.stdout), "leader")
	text, err := os.ReadFile(log)
	if err != nil || strings.Contains(string(text), "cannot be saved") {
		t.Errorf("it does not save (%v):\n%s", err, text)
	}
}

// A user that may start too few processes gets a sentence: an agent that ran out of threads would abort.
func TestAStartWithFewProcesses(t *testing.T) {
	if os.Getenv("BATUTA_TEST_NETNS") == "" {
		t.Skip("set BATUTA_TEST_NETNS=1 as root: the test runs as another user")
	}
	user := &syscall.Credential{Uid: 64997, Gid: 64997} // that runs nothing else
	for n := 12; ; n++ {                                // with fewer, the runtime of Go may not start
		text, code := refusedStart(t, user, fmt.Sprint("-u ", n))
		if code == 0 {
			if n < 32 || n > 64 {
				t.Errorf("it starts with %d processes and threads", n)
			}
			return
		}
		oneSentence(t, text, code, "this user may start", "needs 32: raise the limit (ulimit -u)")
		if n > 64 {
			t.Fatalf("%d are not enough", n)
		}
	}
}

// A machine whose root is read-only runs an agent, and a command whose readiness has no place for its socket gets a
// sentence.
func TestAReadOnlyRoot(t *testing.T) {
	if os.Getenv("BATUTA_TEST_NETNS") == "" {
		t.Skip("set BATUTA_TEST_NETNS=1 as root: the test makes a mount namespace")
	}
	const readOnly = `mount --make-rprivate / && mount -o remount,ro,bind / && ! touch "${0%/*}/x" 2>/dev/null && `
	unshared := func(script string, args ...string) *bufio.Scanner {
		return limited(t, `exec unshare -m bash -c "$1" "$0" "${@:2}"`, append([]string{readOnly + script}, args...)...)
	}
	said(t, unshared(`exec -a batuta "$0" agent --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0`), "leader")
	said(t, unshared(`exec -a batuta "$0" run --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0 -- echo it works 2>&1`), "it works")
	said(t, unshared(`exec -a batuta "$0" run --await-ready --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0 -- sleep 1000 2>&1`),
		"read-only file system; set TMPDIR to a directory that can be written")
	said(t, unshared(`exec -a batuta "$0" agent --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0 --data-dir "$1" 2>&1`, filepath.Join(t.TempDir(), "data")),
		"read-only file system: mount that file system writable")
}

// An agent, and a command with its guard, run in 32 MiB.
func TestLittleMemory(t *testing.T) {
	group, limit := "", ""
	for _, at := range []struct{ root, limit string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir := filepath.Join(at.root, fmt.Sprint("batuta-test-", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { syscall.Rmdir(dir) })
		if os.WriteFile(filepath.Join(dir, at.limit), []byte("33554432"), 0) == nil {
			group, limit = dir, at.limit
			break
		}
	}
	if group == "" {
		t.Skip("no memory cgroup can be made here")
	}
	out := limited(t, `echo $$ >"$1/cgroup.procs" && exec -a batuta "$0" run --restart --algorithm quorum --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0 --data-dir "$2" -- sh -c 'echo it works; exec sleep 1.5'`,
		group, filepath.Join(t.TempDir(), "data"))
	said(t, out, "it works")
	said(t, out, "it works")
	if text, err := os.ReadFile(filepath.Join(group, limit)); err != nil || strings.TrimSpace(string(text)) != "33554432" {
		t.Errorf("the limit is %q, %v", text, err)
	}
}

// An agent that is killed leaves no socket behind at which its command reported that it is ready.
func TestAKilledAgentLeavesNoSocket(t *testing.T) {
	tmp := t.TempDir()
	out := limited(t, `export TMPDIR="$1"; echo "agent $$"; exec -a batuta "$0" run --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0 --await-ready -- sh -c 'test -S "$NOTIFY_SOCKET" && echo serves; exec sleep 1000'`, tmp)
	pid, err := strconv.Atoi(strings.TrimPrefix(said(t, out, "agent "), "agent "))
	if err != nil {
		t.Fatal(err)
	}
	said(t, out, "serves")
	if left, _ := os.ReadDir(tmp); len(left) != 1 {
		t.Fatalf("%d entries in TMPDIR, want one", len(left))
	}
	syscall.Kill(pid, syscall.SIGKILL)
	for end := time.Now().Add(agreeWithin); ; time.Sleep(10 * time.Millisecond) {
		left, err := os.ReadDir(tmp)
		if err == nil && len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%v are left (%v)", left, err)
		}
	}
}

// limited runs a script of bash with this program as $0 until the test ends, and gives its output.
func limited(t *testing.T, script string, args ...string) *bufio.Scanner {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"-c", script, os.Args[0]}, args...)...)
	cmd.SysProcAttr = hooks.ChildAttributes()
	cmd.SysProcAttr.Setpgid = true
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	deadline := time.AfterFunc(agreeWithin, func() { cmd.Process.Kill() })
	t.Cleanup(func() { deadline.Stop(); cmd.Process.Kill(); cmd.Wait() })
	return bufio.NewScanner(stdout)
}
