package electiontest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/sim"
)

// Scenarios plays the scenario files that pattern ([filepath.Glob]) finds, one
// subtest a file. What a file expects must come true, and the trace must be the
// one in it; update writes the trace into the file instead, unless a rule breaks.
func Scenarios(t *testing.T, maker sim.Maker, pattern string, update bool) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no scenarios found: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.ToSlash(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			playFile(t, maker, file, update)
		})
	}
}

func playFile(t *testing.T, maker sim.Maker, file string, update bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sim.Parse(file, string(text))
	if err != nil {
		t.Fatal(err)
	}
	trace := sim.Trace{Messages: s.Messages}
	if _, err = s.Play(maker, trace.Add); err != nil {
		t.Errorf("%v\n%s", err, trace.Text())
		if _, broken := errors.AsType[*sim.Violation](err); broken || !update {
			return
		}
	}
	if update {
		script, _, _ := strings.Cut(string(text), "\n----\n")
		if err := os.WriteFile(file, []byte(strings.TrimRight(script, "\n")+"\n----\n"+trace.Text()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := sim.Differs(s.Golden, trace.Text()); d != "" {
		t.Errorf("%s: %s\nplay it with \"batuta sim run --trace %s\"; if each change is meant, take it over with -update", file, d, file)
	}
}
