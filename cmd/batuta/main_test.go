package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/stalltest"
	"github.com/batuta-dev/batuta/internal/work/run/runtest"
	"github.com/batuta-dev/batuta/internal/work/schedule"
	"github.com/batuta-dev/batuta/internal/work/systemd"
)

// TestMain lets the test binary be batuta when it is called by that name: by the
// scripts, and as the members of a cluster.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "guard" {
		often() // the child of a command that ran in the test's own process
	}
	if programs[filepath.Base(os.Args[0])] == nil {
		fulltest.MostlyWait(8)
	}
	testscript.Main(m, programs)
}

// programs are what the test binary can be.
var programs = map[string]func(){"batuta": often, "worker": worker, "serves": serves}

// often is batuta, to which "@always" is a schedule with a tick every 50 ms.
func often() {
	e := system()
	e.Config = os.Getenv("SYSTEM_CONFIG") // no test depends on this machine's
	e.Schedules = func(spec string) (schedule.Schedule, error) {
		if spec == "@always" {
			return schedule.Schedule{Ticks: always{}}, nil
		}
		return scheduleOf(spec)
	}
	os.Exit(run(context.Background(), os.Args[1:], e))
}

type always struct{}

func (always) Next(t time.Time) time.Time {
	return t.Truncate(50 * time.Millisecond).Add(50 * time.Millisecond)
}

// serves is a service that reports READY=1 once there is a file of that name.
func serves() {
	for _, err := os.Stat(os.Args[1]); err != nil; _, err = os.Stat(os.Args[1]) {
		time.Sleep(10 * time.Millisecond)
	}
	if m, err := systemd.Open(os.LookupEnv, os.Getpid()); err != nil || m.Ready() != nil {
		os.Exit(1)
	}
	time.Sleep(time.Hour)
}

// worker is the command that "batuta run" runs in these tests.
func worker() { runtest.Work([]string{"worker"}, os.Args[1:]) }

// TestScripts runs each script of testdata.
func TestScripts(t *testing.T) {
	t.Parallel()
	watch := stalltest.Start(t)
	program, err := exec.LookPath("batuta")
	if err != nil {
		t.Fatal(err)
	}
	processes := stalltest.StartProcesses(t, 250*time.Millisecond, func() *exec.Cmd {
		return &exec.Cmd{Path: program, Args: []string{"idler"}} // of the same file as the scripts' batuta
	})
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("found the scripts %q: %v", files, err)
	}
	scripts := scriptParams(watch, processes)
	scripts.Deadline, _ = t.Deadline()
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			script := scripts
			script.Files = []string{file}
			attempts(t, watch, func(a *attempt) { testscript.RunT(a, script) })
		})
	}
}

// scriptParams has the commands of scripts.
func scriptParams(watch *stalltest.Watch, processes *stalltest.Processes) testscript.Params {
	return testscript.Params{
		Setup: func(s *testscript.Env) error {
			s.Values[agentsKey{}] = map[string]*process{}
			ports, err := freeport.Find(6)
			for i, p := range ports {
				s.Setenv("ADDR"+strconv.Itoa(i+1), fmt.Sprintf("127.0.0.1:%d", p))
			}
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, neg bool, args []string) {
				scriptExits(ts, watch, processes, neg, args)
			},
			"start":   scriptStart,
			"leave":   scriptLeave,
			"kills":   scriptKills,
			"ends":    scriptEnds,
			"lists":   scriptLists,
			"follows": scriptFollows,
			"sees":    scriptSees,
			"told":    scriptTold,
			"leads":   scriptLeads,
			"handed":  scriptHanded,
			"unknown": scriptUnknown,
			"appears": scriptAppears,
			"hup":     scriptHUP,
		},
	}
}

// scriptExits is "exits CODE COMMAND…": it must end with that code, within the
// five seconds a user may be kept waiting, and say why on one line.
func scriptExits(ts *testscript.TestScript, watch *stalltest.Watch, processes *stalltest.Processes, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	began := time.Now()
	err := ts.Exec(args[1], args[2:]...)
	ended := time.Now()
	if took, held := watch.Given(began, ended), processes.Held(began, ended); took-held > 5*time.Second {
		ts.Fatalf("took %v, and its start and end were held up for %v; want 5s at most", took, held)
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
	if stderr := ts.ReadFile("stderr"); code != 0 && strings.Count(stderr, "\n") != 1 {
		ts.Fatalf("want one line on standard error, got:\n%s", stderr)
	}
}

// scriptStart is "start NAME FLAG…": it runs an agent until the script ends, waits
// until it knows a leader, and sets NAME to the address of its HTTP API.
func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start NAME FLAG…")
	}
	executable, err := os.Executable() // os.Args[0] may be relative
	ts.Check(err)
	p, err := startProcess(executable, ts.Getenv("WORK"), append([]string{"batuta", "agent", "--events", "json", "--log-level", "warn", "--http", "127.0.0.1:0"}, args[1:]...))
	ts.Check(err)
	ts.Defer(func() { p.kill(); <-p.ended })
	lines, closing := make(chan childLine), make(chan struct{})
	defer close(closing)
	go p.read(&member{}, lines, closing)
	for {
		select {
		case l := <-lines:
			switch {
			case l.end:
				ts.Fatalf("agent %s has ended: %s", args[0], p.lastWords())
			case l.line.Event == "ready":
				ts.Setenv(args[0], l.line.HTTP)
			case l.line.Event == "leader":
				agents(ts)[args[0]] = p
				return
			}
		case <-time.After(agreeWithin):
			ts.Fatalf("agent %s knows no leader after %v", args[0], agreeWithin)
		}
	}
}

// agents are those that a script has started, by name.
func agents(ts *testscript.TestScript) map[string]*process {
	return ts.Value(agentsKey{}).(map[string]*process)
}

type agentsKey struct{}

// scriptLeave is "leave NAME": SIGTERM, upon which the agent must end with exit code 0.
func scriptLeave(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: leave NAME")
	}
	p := agents(ts)[args[0]]
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			ts.Fatalf("agent %s ended with %d: %s", args[0], code, p.lastWords())
		}
	case <-time.After(partingTime):
		ts.Fatalf("agent %s still runs %v after SIGTERM", args[0], partingTime)
	}
}

// scriptKills is "kills NAME": SIGKILL.
func scriptKills(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: kills NAME")
	}
	p := agents(ts)[args[0]]
	p.kill()
	<-p.ended
}

// scriptEnds is "ends NAME CODE TEXT": the agent must end by itself with that
// code, and its last words hold TEXT.
func scriptEnds(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: ends NAME CODE TEXT")
	}
	p := agents(ts)[args[0]]
	select {
	case <-p.ended:
		if code := p.cmd.ProcessState.ExitCode(); strconv.Itoa(code) != args[1] || !strings.Contains(p.lastWords(), args[2]) {
			ts.Fatalf("agent %s ended with %d: %s", args[0], code, p.lastWords())
		}
	case <-time.After(agreeWithin):
		ts.Fatalf("agent %s still runs after %v", args[0], agreeWithin)
	}
}

// scriptLists is "lists ADDRESS ID…": the agent whose API is there must come to
// list exactly these members.
func scriptLists(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: lists ADDRESS ID…")
	}
	await(ts, args[0], fmt.Sprintf("lists %q", args[1:]), func(s api.Status) bool {
		var ids []string
		for _, m := range s.Members {
			ids = append(ids, m.ID)
		}
		slices.Sort(ids)
		return slices.Equal(ids, args[1:])
	})
}

// scriptSees is "sees ADDRESS ID STATE": the agent whose API is there must come to
// say that this is ID's state.
func scriptSees(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: sees ADDRESS ID STATE")
	}
	await(ts, args[0], fmt.Sprintf("sees %s %s", args[1], args[2]), func(s api.Status) bool {
		return slices.ContainsFunc(s.Members, func(m api.Member) bool { return m.ID == args[1] && m.State == args[2] })
	})
}

// scriptTold is "told ADDRESS ID KEY=VALUE": the agent whose API is there must come to
// know that ID tells that of itself.
func scriptTold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: told ADDRESS ID KEY=VALUE")
	}
	key, value, _ := strings.Cut(args[2], "=")
	await(ts, args[0], "is told by "+args[1], func(s api.Status) bool {
		return slices.ContainsFunc(s.Members, func(m api.Member) bool { return m.ID == args[1] && m.Meta[key] == value })
	})
}

// scriptFollows is "follows ADDRESS ID": the agent whose API is there must come
// to say that ID leads.
func scriptFollows(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: follows ADDRESS ID")
	}
	await(ts, args[0], "follows "+args[1], func(s api.Status) bool {
		return s.Leader != nil && *s.Leader == args[1]
	})
}

// await waits for an agent's status to be good.
func await(ts *testscript.TestScript, addr, what string, good func(api.Status) bool) {
	client, err := api.NewClient(addr, api.Access{})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), agreeWithin)
	defer cancel()
	var last json.RawMessage
	found := errors.New("found")
	err = client.Watch(ctx, nil, func([]byte) error { // once for the current view, then at each change
		for {
			err := client.Get(ctx, "/v1/status", &last)
			if answer, ok := errors.AsType[*api.AnswerError](err); ok && answer.Code == http.StatusServiceUnavailable {
				continue // the machine holds the agent up
			} else if err != nil {
				return err
			}
			break
		}
		var s api.Status
		if err := json.Unmarshal(last, &s); err != nil {
			return err
		}
		if good(s) {
			return found
		}
		return nil
	})
	if err != found {
		ts.Fatalf("waited %v in vain until the agent at %s %s (%v): %s", agreeWithin, addr, what, err, last)
	}
}

// Every command says in its help how it is used.
func TestEveryCommandHasAnExample(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Example == "" || c.Short == "" {
			t.Errorf("%s has no example or no description", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(cli.Env{Stdout: os.Stdout, Stderr: os.Stderr, Lookup: os.LookupEnv}))
}

func TestSummary(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, tt := range []struct {
		in   []float64
		want summary
	}{
		{nil, summary{}},
		{[]float64{3}, summary{3, 3, 3}},
		{[]float64{4, 1, 2}, summary{2, 4, 4}},
		{hundred, summary{50.5, 99, 100}},
	} {
		if got := summarize(tt.in); got != tt.want {
			t.Errorf("summarize: got %v, want %v", got, tt.want)
		}
	}
}

// A secret on a command line is seen by every user of the machine, and "config show" prints it: a flag names
// the file that has it.
func TestNoFlagHasASecret(t *testing.T) {
	var fs pflag.FlagSet
	new(settings).register(&fs)
	fs.VisitAll(func(f *pflag.Flag) {
		for _, word := range []string{"secret", "password", "passphrase"} {
			if strings.Contains(f.Name, word) && !strings.HasSuffix(f.Name, "-file") {
				t.Errorf("--%s: let the flag name a file", f.Name)
			}
		}
	})
}
