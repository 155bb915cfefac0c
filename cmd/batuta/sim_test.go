package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// simulate runs "batuta sim …" and gives its exit code and what it printed.
func playing(t *testing.T, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = run(t.Context(), append([]string{"sim"}, args...), cli.Env{Stdout: &out, Stderr: &errs, Lookup: func(string) (string, bool) { return "", false }})
	return code, out.String(), errs.String()
}

func TestSimJSON(t *testing.T) {
	for _, c := range []struct {
		args string
		keys string
	}{
		{"soak --seeds 1:50 --json", "schedules violations seconds per_second first_failing_seed"},
		{"count --nodes 9 --probe all --crashed 9 --json", "leader messages rounds"},
		{"explore --nodes 3 --crashes 1 --restarts 0 --suspicions 0 --json", "states depth complete violations seconds per_second"},
	} {
		code, out, errs := playing(t, strings.Fields(c.args)...)
		if code != cli.Done {
			t.Errorf("%s: exit code %d: %s", c.args, code, errs)
			continue
		}
		var answer map[string]any
		if err := json.Unmarshal([]byte(out), &answer); err != nil {
			t.Errorf("%s: %v in %q", c.args, err, out)
		}
		for _, key := range strings.Fields(c.keys) {
			if _, ok := answer[key]; !ok {
				t.Errorf("%s: no %q in %s", c.args, key, out)
			}
		}
	}
}

// noRoom is a disk without room for what is printed.
type noRoom struct{}

func (noRoom) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A figure that is lost is no success, and a run that was cut short is none either.
func TestSimFailsWithoutItsOutput(t *testing.T) {
	scenario := filepath.Join(t.TempDir(), "s.txt")
	if err := os.WriteFile(scenario, []byte("members 1 2 3\nagree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if code := run(ended, []string{"lab", "--static", filepath.Join(t.TempDir(), "lab")}, cli.Env{Stdout: io.Discard, Stderr: io.Discard, Lookup: func(string) (string, bool) { return "", false }}); code != cli.Failed {
		t.Errorf("a lab that is not written: exit code %d", code)
	}
	for _, c := range []struct {
		args string
		ctx  context.Context
		out  io.Writer
		want string
	}{
		{"count --nodes 3", t.Context(), noRoom{}, "no space left"},
		{"soak --seeds 1:5", t.Context(), noRoom{}, "no space left"},
		{"explore --nodes 2", t.Context(), noRoom{}, "no space left"},
		{"run " + scenario, t.Context(), noRoom{}, "no space left"},
		{"run --trace " + scenario, t.Context(), noRoom{}, "no space left"},
		{"soak --seeds 1:5", ended, io.Discard, "interrupted: 0 of 5 schedules"},
		{"soak --seeds 1:5 --json", ended, io.Discard, "interrupted: 0 of 5 schedules"},
	} {
		var errs strings.Builder
		code := run(c.ctx, append([]string{"sim"}, strings.Fields(c.args)...), cli.Env{Stdout: c.out, Stderr: &errs, Lookup: func(string) (string, bool) { return "", false }})
		if code != cli.Failed || !strings.Contains(errs.String(), c.want) {
			t.Errorf("sim %s: exit code %d, %q, want 1 and %q", c.args, code, errs.String(), c.want)
		}
	}
}

func TestSimRefuses(t *testing.T) {
	for _, args := range []string{
		"soak --seeds 5:1", "soak --seeds a:b", "soak --nodes 0", "soak --faults earthquake", "soak --faults-per-run 0", "soak --draw lots",
		"soak --algorithm tombola", "count --nodes 0", "count --nodes 3 --crashed 4", "count --nodes 3 --start 3 --crashed 3",
		"count --order sideways", "count --probe sideways", "explore --nodes 9", "explore --crashes -1", "explore --epochs 101", "explore --probe sideways",
		"explore --algorithm tombola", "explore --initiators 1 --algorithm quorum", "run", "run nowhere.txt",
	} {
		code, _, errs := playing(t, strings.Fields(args)...)
		if code != cli.Usage || strings.Count(errs, "\n") != 1 {
			t.Errorf("sim %s: exit code %d, want 2 and one line, got %q", args, code, errs)
		}
		if words := strings.Fields(args); len(words) == 3 && !strings.HasPrefix(errs, "batuta sim "+words[0]+": "+words[1]+" ") {
			t.Errorf("sim %s: the error does not name the flag: %q", args, errs)
		}
	}
}

// A scenario whose expectation does not come true ends with 1 and says what was
// the case; its pictures are drawn all the same.
func TestSimRun(t *testing.T) {
	file, write := fileOf(t, "s.txt")
	svg := filepath.Join(t.TempDir(), "s.svg")
	write("members 1 2\nrun 1s\nexpect leader 2\n")
	if code, _, errs := playing(t, "run", file, "--svg", svg); code != cli.Done {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, err := os.Stat(svg); err != nil {
		t.Error(err)
	}
	write("members 1 2\nrun 1s\nexpect leader 1\n")
	if code, _, errs := playing(t, "run", file); code != cli.Failed || !strings.Contains(errs, "s.txt:3: [1.000s] expected leader 1") {
		t.Errorf("an unmet expectation: exit code %d, %q", code, errs)
	}
	write("members 1 2\nrun soon\n")
	if code, _, errs := playing(t, "run", file); code != cli.Usage || !strings.Contains(errs, "s.txt:2:5: expected a time") {
		t.Errorf("a typo: exit code %d, %q", code, errs)
	}
	write("members 1 2\nrun 1s\nexpect messages ELECTION = 0\n")
	if code, _, errs := playing(t, "run", file); code != cli.Usage || !strings.Contains(errs, `s.txt:3:1: expected a kind of message (ack, answer, beat, `) || !strings.Contains(errs, `found "ELECTION"`) {
		t.Errorf("an unknown kind of message: exit code %d, %q", code, errs)
	}
	write("\ufeffmembers 1 2\r\nrun 1s\r\nexpect leader 2\r\n")
	if code, _, errs := playing(t, "run", file); code != cli.Done {
		t.Errorf("a file of Windows: exit code %d, %q", code, errs)
	}
}
