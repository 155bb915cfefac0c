package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/batuta-dev/batuta"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/internal/api"
	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/testkit/freeport"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// lone is an agent without other members, with its output in the test's hands.
type lone struct {
	cmd            *exec.Cmd
	stdout, stderr io.ReadCloser
}

func startLone(t *testing.T, flags ...string) *lone {
	t.Helper()
	return startCommand(t, append([]string{"agent", "--id", "1", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, flags...)...)
}

func startCommand(t *testing.T, args ...string) *lone {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = append([]string{"batuta"}, args...)
	cmd.SysProcAttr = hooks.ChildAttributes()
	a := &lone{cmd: cmd}
	var err error
	if a.stdout, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if a.stderr, err = cmd.StderrPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// One that hangs ends the test by failing to write what is waited for.
	deadline := time.AfterFunc(agreeWithin, func() { cmd.Process.Kill() })
	t.Cleanup(func() { deadline.Stop(); cmd.Process.Kill(); cmd.Wait() })
	return a
}

// said waits for a line that holds want.
func said(t *testing.T, out *bufio.Scanner, want string) string {
	t.Helper()
	for out.Scan() {
		if strings.Contains(out.Text(), want) {
			return out.Text()
		}
	}
	t.Fatalf("the agent ended without saying %q", want)
	return ""
}

// fileOf returns a file of that name that does not exist yet, and what writes it.
func fileOf(t *testing.T, name string) (file string, write func(text string)) {
	file = filepath.Join(t.TempDir(), name)
	return file, func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// SIGHUP takes over the log level from the file, and keeps the old one when the
// file makes no sense.
func TestReload(t *testing.T) {
	file, write := fileOf(t, "batuta.yaml")
	write("log-level: info\nhttp: off\n")
	a := startLone(t, "--config", file)
	said(t, bufio.NewScanner(a.stdout), "leads")
	stderr := bufio.NewScanner(a.stderr)
	for _, step := range []struct{ file, want string }{
		{"log-level: loud\n", `--log-level \"loud\": use debug`},
		{"log-level: debug\nhttp: off\n", "are reloaded\" log-level=DEBUG"},
		{"log-level: info\npriority: 2\ngrace: 9s\n", "settings of its start\" settings=grace,priority"},
	} {
		write(step.file)
		if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		said(t, stderr, step.want)
	}
}

// A file may serve several commands. Only the settings of this one need its restart.
func TestAReloadNamesTheSettingsOfItsCommand(t *testing.T) {
	file, write := fileOf(t, "batuta.yaml")
	write("listen: 127.0.0.1:1\npriority: 2\ngrace: 9s\nmissed: skip\ndev: eth0\n")
	env := cli.Env{Lookup: func(string) (string, bool) { return "", false }}
	for _, test := range []struct {
		name string
		want []string
	}{
		{"witness", []string{"listen"}},
		{"agent", []string{"grace", "listen", "priority"}},
		{"run", []string{"grace", "listen", "missed", "priority"}},
		{"vip", []string{"dev", "listen", "priority"}},
	} {
		cmd, _, err := newRootCommand(env).Find([]string{test.name})
		if err = cmp.Or(err, cmd.ParseFlags([]string{"--config", file})); err != nil {
			t.Fatal(err)
		}
		_, settings, err := (&agentRun{Env: env, cmd: cmd}).readFile()
		if got := slices.Sorted(maps.Keys(settings)); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
}

// The log has the reason for which a command of a file of elections is stopped.
func TestACommandIsStoppedForItsLine(t *testing.T) {
	file, write := fileOf(t, "elections")
	const line = "x sh -c 'echo begun; exec sleep 1000'\n"
	write(line)
	a := startLone(t, "--elections-file", file)
	stderr := bufio.NewScanner(a.stderr)
	for _, next := range []string{"x weight=2" + line[1:], "y" + line[1:]} {
		said(t, stderr, "begun")
		write(next)
		if err := a.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if stopped := said(t, stderr, "the command is stopped"); !strings.Contains(stopped, `cause="its line was changed or removed"`) {
			t.Error(stopped)
		}
	}
}

// An agent whose events nobody reads any more stays a member.
func TestEventReaderGone(t *testing.T) {
	a := startLone(t, "--events", "json", "--log-format", "json")
	ready := said(t, bufio.NewScanner(a.stdout), `"ready"`)
	a.stdout.Close()
	_, rest, _ := strings.Cut(ready, `"http":"`)
	at, _, _ := strings.Cut(rest, `"`)
	resp, err := http.Post("http://"+at+"/v1/resign", "", nil) // makes an event that finds no reader
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	said(t, bufio.NewScanner(a.stderr), "events are not printed any more")
	if resp, err = http.Get("http://" + at + "/healthz"); err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("healthz: %s", resp.Status)
	}
}

// The listener for health checks has the metrics, also where the API is off.
func TestMetricsBesideHealth(t *testing.T) {
	ports, err := freeport.Find(1)
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", ports[0])
	a := startLone(t, "--http", "off", "--health-http", address)
	said(t, bufio.NewScanner(a.stdout), "leads")
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(body), "\nbatuta_is_leader 1\n") {
		t.Errorf("%s, %v: %s", resp.Status, err, body)
	}
}

// A watcher is told the current view and what follows, until the agent leaves.
func TestWatch(t *testing.T) {
	t.Parallel()
	a := startLone(t, "--events", "json")
	_, rest, _ := strings.Cut(said(t, bufio.NewScanner(a.stdout), `"ready"`), `"http":"`)
	at, _, _ := strings.Cut(rest, `"`)
	watch := exec.CommandContext(t.Context(), os.Args[0])
	watch.Args = []string{"batuta", "watch", "--http", at, "--json"}
	out, err := watch.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	said(t, lines, `"event":"leader","id":"1","election":"default","leader":"1","epoch":1}`)
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	said(t, lines, `"event":"lost","id":"1","election":"default","leader":"1","epoch":1,"cause":"`)
	watch.Wait()
	if code := watch.ProcessState.ExitCode(); code != cli.NoAgent {
		t.Errorf("watch ends with %d when the agent goes, want %d", code, cli.NoAgent)
	}
}

// However late an agent comes to print: it tells every leadership from its first
// line on.
func TestEveryLeadershipIsToldFromItsBeginning(t *testing.T) {
	var out, logs strings.Builder
	a := &agentRun{Env: cli.Env{Stdout: &out, Stderr: &logs}, flags: &agentFlags{}}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	a.flags.output.Register(flags, "json")
	var err error
	if a.log, err = a.flags.output.Open(&logs); err != nil {
		t.Fatal(err)
	}
	defer a.flags.output.Close()
	if err := a.start(t.Context(), batuta.Config{ID: "1", Listen: "127.0.0.1:0", Algorithm: bully.New()}); err != nil {
		t.Fatal(err)
	}
	views := 0
	for v := range a.node.Watch(t.Context()) {
		if views++; v.Defined() && v.Token.Epoch == 2 {
			break
		}
		if v.Defined() {
			go a.node.Resign(t.Context()) // and it leads anew when nobody else does
		}
	}
	a.node.Close()
	a.printEvents(t.Context(), api.Line{Event: "ready"})
	var told []string
	for line := range strings.Lines(out.String()) {
		var l api.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Event != "standing" {
			told = append(told, fmt.Sprintf("%s %d", l.Event, l.Epoch))
		}
	}
	if want := []string{"ready 0", "leader 1", "lost 1", "leader 2", "lost 2"}; !slices.Equal(told, want) {
		t.Errorf("printed %q, want %q", told, want)
	}
}
