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
	"github.com/batuta-dev/batuta/internal/command/run/runtest"
)

// clients are programs in Python that hold the election payroll at an agent while a worker runs.
func clients(t *testing.T) map[string][]string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatal("python3 is not installed, and CI needs it")
		}
		t.Skip("python3 is not installed")
	}
	page, err := os.ReadFile("../../docs/any-language.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(page), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	hold := filepath.Join(t.TempDir(), "hold.py")
	if err := os.WriteFile(hold, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"the page's": {hold, "http://AGENT"},
		"the client": {"../../clients/python/batuta.py", "--agent", "AGENT", "--grace", "0.5", "payroll", "--"},
	}
}

// hold runs a client at the agent of a member.
func (c *crew) hold(program []string, at string) {
	c.T.Helper()
	cmd := exec.Command("python3", strings.Split(strings.ReplaceAll(strings.Join(program, "\n"), "AGENT", c.http[at]), "\n")...)
	cmd.Args = append(append(cmd.Args, "worker"), c.Argv("lock="+filepath.Join(c.T.TempDir(), "..", "alone"), "deaf")...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM) // the client's own ends its worker
		cmd.Wait()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // that of the page leaves it behind
	})
}

// Programs in Python lead in turn: each stops its work when its agent is killed or frozen, and before another leads
// when it is asked to. Under a quorum no two work at once.
func TestProgramsInPythonLeadInTurn(t *testing.T) {
	for name, program := range clients(t) {
		for _, algorithm := range []string{"bully", "quorum"} {
			t.Run(name+" "+algorithm, func(t *testing.T) {
				t.Parallel()
				c := newLocks(t, algorithm)
				c.hold(program, "1")
				w := c.next("it begins")
				c.hold(program, "2")
				c.hold(program, "3")
				leads := func() string {
					for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
						out := &strings.Builder{}
						e := silent()
						e.stdout = out
						for _, at := range []string{"1", "2", "3"} {
							if code := run(t.Context(), []string{"leader", "--election", "payroll", "--agent", c.http[at]}, e); code == cli.Done {
								return strings.TrimSpace(out.String())
							}
						}
						if time.Since(began) > runtest.Patience {
							t.Fatal("no member leads")
						}
					}
				}
				c.signal("1", syscall.SIGKILL)
				<-c.dead["1"]
				c.Dies(w)
				if w = c.Next(); algorithm == "quorum" && !w.Alone {
					t.Error("the agent was killed: two work at once")
				}
				c.start("1")

				to := map[string]string{"1": "2", "2": "3", "3": "2"}[leads()]
				for began := time.Now(); run(t.Context(), []string{"transfer", to, "--election", "payroll", "--agent", c.http[to]}, silent()) != cli.Done; time.Sleep(10 * time.Millisecond) {
					if time.Since(began) > runtest.Patience { // it is refused until that program is a candidate
						t.Fatal("it is never handed over")
					}
				}
				c.Dies(w)
				w = c.next("it was handed over")

				at := leads()
				c.signal(at, syscall.SIGSTOP)
				c.Dies(w)
				if w = c.Next(); algorithm == "quorum" && !w.Alone {
					t.Error("the agent is frozen: two work at once")
				}
				c.signal(at, syscall.SIGCONT)
			})
		}
	}
}

// As a module the client runs work in a thread, gives its value, and reads events that resume.
func TestThePythonClientIsAModule(t *testing.T) {
	t.Parallel()
	clients(t)
	c := newLocks(t, "bully")
	cmd := exec.CommandContext(t.Context(), "python3", "-c", `
import batuta, sys, itertools
agent = batuta.Agent("http://" + sys.argv[1])
def work(lead):
    lead.ready()
    assert not lead.wait(0.2) and lead.left() > 0 and not lead.over()
    return lead.token
print("led", agent.lead("payroll", work, weight=2).split(":")[1])
def fails(lead): raise KeyError("mine")
try: agent.lead("payroll", fails)
except KeyError as e: print("raised", e)
try: agent.lead("default", work)
except batuta.Refused as e: print("refused", e.code)
first = next(agent.events())
again = next(agent.events(since=first["index"][:-1] + "0"))
print(first["event"], again["event"], next(agent.events(since="other-1"))["event"])
`, c.http["2"])
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../clients/python", "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stderr = os.Stderr
	for began := time.Now(); run(t.Context(), []string{"leader", "--agent", c.http["2"]}, silent()) != cli.Done; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > runtest.Patience {
			t.Fatal("no member leads")
		}
	}
	out, err := cmd.Output()
	if want := "led 2\nraised 'mine'\nrefused 409\nleader leader reset\n"; err != nil || string(out) != want {
		t.Errorf("it prints %q, %v; not %q", out, err, want)
	}
}
