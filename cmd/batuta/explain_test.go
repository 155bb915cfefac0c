package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/command/explain"
)

// ask runs a command of this program against m, and gives what it prints and its exit code.
func askMember(t *testing.T, m *member, line string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), append(strings.Fields(line), "--agent", m.http), cli.Env{Stdout: &out, Stderr: &errs, Lookup: func(string) (string, bool) { return "", false }})
	return out.String() + errs.String(), code
}

// A leader is killed, and the next frozen: explain at each one's successor, which has detected
// the loss itself, prints its cause, the next leader and the time in between.
func TestExplainHasASentenceForEachChange(t *testing.T) {
	c, now := startCluster(t, 3, "--t-process", "1500ms") // no change comes between the two
	for _, m := range c.members {
		awaitUp(t, m)
	}
	mustCrash(t, c, now.leader)
	now = mustAgree(t, c, now.epoch+1, "2")
	const at, took = ` lost leadership at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z: `, ` took over \d+(\.\d)? m?s later, epoch \d+`
	crashed := mustPrint(t, now.leader, "explain --last 1", `3`+at+`its process ended, and its address refused the connection; 2`+took)
	if again := mustPrint(t, now.leader, "explain", `(?s)3`+at+`.*`); !strings.HasPrefix(again, crashed) {
		t.Errorf("the newest change, %q, is not the first of\n%s", crashed, again)
	}
	if _, err := c.freeze(now.leader); err != nil {
		t.Fatal(err)
	}
	now = mustAgree(t, c, now.epoch+1, "1")
	sentence := mustPrint(t, now.leader, "explain --last 1", `2`+at+`no heartbeat arrived for \d+(\.\d)? m?s; 1`+took)
	mustPrint(t, now.leader, "explain --last 2", `2`+at+`.*\n3`+at+`.*`)
	var changes []explain.Change
	text := mustPrint(t, now.leader, "explain --json --last 1", `.*`)
	if err := json.Unmarshal([]byte(text), &changes); err != nil || len(changes) != 1 || changes[0].Cause != "silent" || *changes[0].Leader != "1" || changes[0].Sentence+"\n" != sentence {
		t.Errorf("%v: %s", err, text)
	}
}

// mustPrint runs a command of this program against m, which prints what matches want.
func mustPrint(t *testing.T, m *member, line, want string) string {
	t.Helper()
	text, code := askMember(t, m, line)
	if code != 0 || !regexp.MustCompile("^"+want+"\n$").MatchString(text) {
		t.Fatalf("batuta %s: exit code %d, want %q, got:\n%s", line, code, want, text)
	}
	return text
}
