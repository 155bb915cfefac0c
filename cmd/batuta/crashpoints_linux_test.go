package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
)

// A member is killed at system calls that write, sync or rename a file of its data directory, from its first
// start to its end. The next start on that directory succeeds, and leads under a higher epoch than any that was
// announced: neither its epoch nor its vote is forgotten. strace counts the calls of each thread, so that of calls that
// threads share not each one is tried.
func TestCrashPointsOfTheDisk(t *testing.T) {
	fulltest.Parallel(t)
	strace, err := exec.LookPath("strace")
	if err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatal(err)
		}
		t.Skip("no strace here")
	}
	for _, algorithm := range []string{"bully", "quorum"} {
		for _, call := range []string{"pwrite64", "fdatasync", "fsync", "renameat", "mkdirat"} {
			t.Run(algorithm+"/"+call, func(t *testing.T) {
				fulltest.Parallel(t)
				for n := 1; ; n++ {
					dir := filepath.Join(t.TempDir(), "data")
					trace := []string{strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n)}
					before, killed := ledOnce(t, trace, algorithm, dir)
					after, again := ledOnce(t, nil, algorithm, dir)
					if again || after <= before {
						t.Fatalf("killed at call %d after it led with epoch %d, it leads with epoch %d (ended by itself: %t)", n, before, after, again)
					}
					if !killed {
						if n == 1 {
							t.Error("it is killed at no call")
						}
						t.Logf("%d crash points", n-1)
						return
					}
				}
			})
		}
	}
}

// ledOnce starts a lone member, stops it with SIGTERM once it leads, and gives the epoch under which it led (0: none)
// and whether it ended otherwise.
func ledOnce(t *testing.T, trace []string, algorithm, dir string) (epoch uint64, killed bool) {
	t.Helper()
	script := `echo "agent $$"; exec -a batuta "$0" "$@"`
	argv := append(trace, "bash", "-c", script, os.Args[0], "agent", "--id", "1", "--algorithm", algorithm, "--t-max", "20ms", "--t-process", "100ms", "--heartbeat", "20ms",
		"--listen", "127.0.0.1:0", "--http", "off", "--events", "json", "--data-dir", dir)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = childAttributes()
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
