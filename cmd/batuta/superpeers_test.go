package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/superpeer"
)

// superpeers runs the command with args and gives its exit code and output.
func superpeers(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	e := cli.Env{Stdout: &out, Stderr: &errs, Lookup: func(string) (string, bool) { return "", false }}
	code = run(t.Context(), append([]string{"sim", "superpeers"}, args...), e)
	return code, out.String(), errs.String()
}

func TestSuperpeersRefusesWithTheRange(t *testing.T) {
	matrix := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(matrix, []byte("0,5\n-5,0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string]string{
		"nodes 3: want 10 to":         "--nodes 3",
		"--nodes 0: want more than 0": "--nodes 0",
		"fraction 7":                  "--fraction 7",
		"--fraction 0: want more":     "--fraction 0",
		"rounds -4: want 1 to":        "--rounds -4",
		`space "moon"`:                "--space moon",
		`method "luck"`:               "--method luck",
		"capacity 3 = 27 places":      "--nodes 90 --fraction 0.1 --capacity 3",
		`churn "lots"`:                "--churn lots",
		"row 2, column 1":             "--rtt " + matrix,
		"no such file":                "--rtt /does/not/exist",
		"give one of them":            "--space plane2 --rtt " + matrix,
		"--svg":                       "--nodes 50 --svg /does/not/exist.svg",
		`argument, and got "surplus"`: "surplus",
	} {
		code, stdout, stderr := superpeers(t, strings.Fields(args)...)
		if code != cli.Usage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q; want exit 2 and one line with %q", args, code, stdout, stderr, want)
		}
	}
}

func TestSuperpeersPrintsWhatItPromises(t *testing.T) {
	dir := t.TempDir()
	svg, csv := filepath.Join(dir, "map.svg"), filepath.Join(dir, "rounds.csv")
	args := []string{"--nodes", "400", "--fraction", "0.02", "--capacity", "70", "--rounds", "30", "--seed", "7", "--svg", svg, "--csv", csv}
	code, stdout, stderr := superpeers(t, append(args, "--json")...)
	if code != cli.Done || stderr != "" {
		t.Fatalf("exit %d, %q", code, stderr)
	}
	var answer map[string]any
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		t.Fatal(err)
	}
	for key := range strings.FieldsSeq(`method nodes wanted live mean_latency p95_latency bound ratio_bound
		covering_radius load_max load_cv jain capacity cap_violations unserved settled_round moves_per_token
		messages_per_node_round seconds`) {
		if _, ok := answer[key]; !ok {
			t.Errorf("the answer has no %q", key)
		}
	}
	map1, curves1 := read(t, svg), read(t, csv)
	if !strings.HasPrefix(map1, "<svg") || strings.Count(curves1, "\n") != 31 {
		t.Errorf("map %.40q, %d lines of curves, want <svg and 31", map1, strings.Count(curves1, "\n"))
	}
	if code, table, stderr := superpeers(t, args...); code != cli.Done || !strings.Contains(table, "× the space's bound") {
		t.Errorf("exit %d, %q, %q, want the table", code, table, stderr)
	}
	if read(t, svg) != map1 || read(t, csv) != curves1 {
		t.Error("the same seed gave other files the second time")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAPeersStatusShowsWhatHasBeenWrongForAWhile is the text; the JSON has the same lines.
func TestAPeersStatusShowsWhatHasBeenWrongForAWhile(t *testing.T) {
	for _, warnings := range [][]string{nil, {"5 super peers live, 3 are wanted, for 90 s"}} {
		var out strings.Builder
		if err := printPeer(&out, &superpeer.Status{ID: "n1", Warnings: warnings}); err != nil {
			t.Fatal(err)
		}
		if k := strings.Count(out.String(), "WARNING"); k != len(warnings) || k > 0 && !strings.Contains(out.String(), warnings[0]) {
			t.Errorf("with the warnings %q it prints %s", warnings, out.String())
		}
	}
}
