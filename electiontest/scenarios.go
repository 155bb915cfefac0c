package electiontest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/sim/trace"
)

// Scenarios plays the scenario files that pattern ([filepath.Glob]) finds, each in a subtest.
// Each expectation of a file must come true, and its trace must be the same. With update the
// trace is written into the file instead, unless a rule is broken.
func Scenarios(t *testing.T, maker Maker, pattern string, update bool) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no scenarios found: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.ToSlash(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s, err := Load(file)
			switch {
			case err != nil:
				t.Fatal(err)
			case update:
				rewrite(t, maker, s)
			default:
				if err := Replay(maker, s); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Load reads a scenario file.
func Load(file string) (*Scenario, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return scenario.Parse(file, string(text))
}

// Replay plays a scenario. Its error is the first rule or expectation that breaks, with the
// trace, or the first difference to the scenario's own trace.
func Replay(maker Maker, s *Scenario) error {
	log := trace.Log{Messages: s.Messages}
	if _, err := sim.Play(s, maker, log.Add); err != nil {
		return fmt.Errorf("%w\n%s", err, log.Text())
	}
	if d := trace.Differs(s.Golden, log.Text()); d != "" {
		return fmt.Errorf("%s: %s\nplay it with \"batuta sim run --trace %s\"; if each change is meant, take it over with -update", s.Name, d, s.Name)
	}
	return nil
}

// rewrite writes the trace of a scenario into its file.
func rewrite(t *testing.T, maker Maker, s *Scenario) {
	log := trace.Log{Messages: s.Messages}
	if _, err := sim.Play(s, maker, log.Add); err != nil {
		t.Errorf("%v\n%s", err, log.Text())
		if _, broken := errors.AsType[*invariant.Violation](err); broken {
			return
		}
	}
	text, err := os.ReadFile(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(string(text), "\n----\n")
	if err := os.WriteFile(s.Name, []byte(strings.TrimRight(script, "\n")+"\n----\n"+log.Text()), 0o644); err != nil {
		t.Fatal(err)
	}
}
