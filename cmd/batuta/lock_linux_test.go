package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
)

// newLocks is three agents without work of their own.
func newLocks(t testing.TB, algorithm string) *crew {
	t.Helper()
	c := newCrew(t, 3, []string{"--events", "off", "--algorithm", algorithm})
	c.verb, c.command = "agent", []string{}
	if algorithm == "quorum" {
		c.dir = filepath.Join(c.memory, "data")
	}
	c.startAll()
	return c
}

// locked is a "batuta lock" that runs.
type locked struct {
	*exec.Cmd
	t     testing.TB
	ended chan struct{}
}

// lock runs "batuta lock" at the agent of a member. Its worker must be alone.
func (c *crew) lock(at string, words ...string) *locked {
	c.T.Helper()
	return c.lockWith("1s", at, words...)
}

// lockWith is lock with a time for the command to end in: a worker that must end by itself gets more than the machine
// may stall.
func (c *crew) lockWith(grace, at string, words ...string) *locked {
	c.T.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"batuta", "lock", "payroll", "--grace", grace, "--agent", c.http[at], "--", "worker"},
		c.Argv(append([]string{"lock=" + filepath.Join(c.T.TempDir(), "..", "alone")}, words...)...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if code := run(c.T.Context(), []string{"status", "--agent", c.http[at]}, silent()); code == cli.Done || time.Since(began) > runtest.Patience {
			break // the agent answers
		}
	}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	l := &locked{cmd, c.T, make(chan struct{})}
	go func() { cmd.Wait(); close(l.ended) }()
	c.T.Cleanup(func() { cmd.Process.Kill(); <-l.ended })
	return l
}

// silent is a world that prints nothing.
func silent() cli.Env {
	return cli.Env{Stdout: &strings.Builder{}, Stderr: &strings.Builder{}, Lookup: func(string) (string, bool) { return "", false }}
}

func (l *locked) code() int {
	l.t.Helper()
	select {
	case <-l.ended:
	case <-time.After(runtest.Patience):
		l.t.Fatal("batuta lock runs on")
	}
	return l.ProcessState.ExitCode()
}

func (l *locked) signal(s syscall.Signal) {
	l.t.Helper()
	if err := l.Process.Signal(s); err != nil {
		l.t.Fatal(err)
	}
}

// next is the next worker, which must be alone.
func (c *crew) next(what string) *runtest.Worker {
	c.T.Helper()
	w := c.Next()
	if !w.Alone {
		c.T.Errorf("%s: two commands run at once", what)
	}
	return w
}

// A lock passes on when its command ends, when its client is killed or frozen, and when its agent is. Under a
// quorum two commands never run at once.
func TestALockPassesOn(t *testing.T) {
	t.Parallel()
	watch := stalltest.Start(t)
	for _, algorithm := range []string{"bully", "quorum"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			attempts(t, watch, func(a *attempt) {
				c := newLocks(a, algorithm)
				c.passesOn(func(w *runtest.Worker, what string) {
					if algorithm == "quorum" && !w.Alone {
						t.Errorf("%s: two commands run at once", what) // in any attempt
					}
				})
			})
		})
	}
}

// passesOn has each holder of a lock lose it. check receives each command that starts.
func (c *crew) passesOn(check func(w *runtest.Worker, what string)) {
	c.T.Helper()
	next := func(what string) *runtest.Worker {
		w := c.next(what)
		check(w, what)
		return w
	}
	first := c.lock("1", "quit=7")
	w := next("it begins")
	if !strings.HasSuffix(w.Token, ":1") {
		c.T.Errorf("BATUTA_TOKEN is %q at agent 1", w.Token)
	}
	second := c.lock("2")
	first.signal(syscall.SIGUSR2) // is passed on
	if code := first.code(); code != 7 {
		c.T.Errorf("the exit code is %d, and its command's is 7", code)
	}
	w = next("the first has ended")

	third := c.lock("1")
	second.signal(syscall.SIGKILL)
	c.Dies(w)
	w = next("the second was killed")

	fourth := c.lock("2")
	third.signal(syscall.SIGSTOP)
	c.Dies(w)
	w = next("the third is frozen")
	third.signal(syscall.SIGCONT)
	if code := third.code(); code != cli.Failed {
		c.T.Errorf("a client that has lost ends with %d", code)
	}

	c.lock("3")
	c.signal("2", syscall.SIGSTOP)
	c.Dies(w)
	w = c.Next()
	check(w, "the agent is frozen")
	c.signal("2", syscall.SIGCONT)
	if code := fourth.code(); code != cli.Failed {
		c.T.Errorf("the client of an agent that was frozen ends with %d", code)
	}

	fifth := c.lockWith("10s", "1")
	c.signal("3", syscall.SIGKILL)
	c.Dies(w)
	w = c.Next()
	check(w, "the agent was killed")
	fifth.signal(syscall.SIGTERM)
	c.Awaits(w, "terminated")
	if code := fifth.code(); code != cli.Done {
		c.T.Errorf("its command ends with 0 on SIGTERM, and it with %d", code)
	}
}

// A command that does not end on SIGTERM is killed before the election is given away.
func TestALossEndsTheCommandBeforeItIsAcknowledged(t *testing.T) {
	t.Parallel()
	attempts(t, stalltest.Start(t), func(a *attempt) {
		c := newLocks(a, "bully")
		first := c.lock("1", "deaf", "child")
		family := []*runtest.Worker{c.Next(), c.Next()}
		c.lock("2")
		for began := time.Now(); run(t.Context(), []string{"transfer", "2", "--election", "payroll", "--agent", c.http["2"]}, silent()) != cli.Done; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > runtest.Patience { // it is refused until the second is a candidate
				a.Fatal("it is never handed over")
			}
		}
		next := c.next("the first has lost")
		for _, w := range family {
			c.Awaits(w, "terminated")
			c.Dies(w)
		}
		if code := first.code(); code != cli.Failed || next.Token == family[0].Token {
			a.Errorf("it ends with %d, and the next has token %s", code, next.Token)
		}
	})
}
