package simtest_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/invariant"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
)

// knownFailure is a scenario of testdata/known that does not end as it should.
type knownFailure struct {
	scenario string
	misses   string // the rule that it breaks, or the step whose demand it misses
	why      string
}

// knownFailures are all of them. Each scenario states what should happen; a fix takes it
// off this list and moves it to the scenarios that must pass.
var knownFailures = []knownFailure{
	{"added_beyond_a_cut", invariant.Converges, "only members that a cluster has removed know that they were added since, and each keeps the next in"},
}

// TestKnownFailures plays each one. It fails as well when a scenario fails in another way, or no
// more: then the scenario leaves the list.
func TestKnownFailures(t *testing.T) {
	files, err := filepath.Glob("testdata/known/*.txt")
	if err != nil || len(files) != len(knownFailures) {
		t.Errorf("%d scenarios in testdata/known, %d on the list (%v)", len(files), len(knownFailures), err)
	}
	for _, k := range knownFailures {
		t.Run(k.scenario, func(t *testing.T) {
			file := filepath.Join("testdata", "known", k.scenario+".txt")
			if !slices.Contains(files, file) {
				t.Fatalf("%s does not exist", file)
			}
			switch missed := misses(t, file); missed {
			case k.misses:
				t.Logf("known failure: %s: %s (misses %q)", file, k.why, k.misses)
			case "":
				t.Errorf("%s passes now: take it off knownFailures and move it to the scenarios that must pass", file)
			default:
				t.Errorf("%s misses %q, and is listed with %q", file, missed, k.misses)
			}
		})
	}
}

// docs/verification.md lists them for readers; -update writes that.
func TestKnownFailuresAreDocumented(t *testing.T) {
	var b strings.Builder
	if len(knownFailures) == 0 {
		documented(t, "docs/verification.md", "known failures", "There is none at present.\n")
		return
	}
	b.WriteString("| scenario | what it misses | why |\n| --- | --- | --- |\n")
	for _, k := range knownFailures {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.scenario, k.misses, k.why)
	}
	documented(t, "docs/verification.md", "known failures", b.String())
}

// misses gives the rule or the demand that a scenario fails, "" if it passes.
func misses(t *testing.T, file string) string {
	s, err := electiontest.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sim.Play(s, anyMaker, nil)
	if broken, ok := errors.AsType[*invariant.Violation](err); ok {
		return broken.Rule
	}
	if unmet, ok := errors.AsType[*scenario.Unmet](err); ok {
		return "expect " + unmet.Want
	}
	if err != nil {
		t.Fatal(err)
	}
	return ""
}
