package sim_test

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
	{"heir_and_returning_member", invariant.Overlap, "The transfer target claims without asking, while a member that starts again takes over."},
	{"heir_and_ring_round", invariant.Overlap, "A round that began before the transfer elects a member next to the transfer target."},
	{"heir_far", invariant.Overlap, "A transfer target that was stopped claims after the others have ended their wait for it."},
	{"heir_latency", invariant.Overlap, "A member that starts again has not received the resignation that names the transfer target."},
	{"heir_ring_member_restarts", invariant.Overlap, "A member that starts again begins a round while the transfer target claims."},
	{"heir_unhealthy", invariant.Converges, "A transfer target that turns unhealthy leaves a cluster in which no member begins an election."},
	{"founding_two_leaders", "expect changes = 1", "A member claims the first epoch before it receives that another has claimed it."},
	{"healthy_while_suspecting", invariant.Overlap, "A member that turns healthy in the middle of a suspicion claims next to the member that takes over."},
	{"no_leader_after_transfer", "expect leader 3", "The wait for a transfer target that cannot write has no end."},
	{"own_priority_and_duplicates", invariant.Phases, "Two processes with one id both set the priority of that id."},
	{"own_priority_and_slow_disk", invariant.Converges, "A member whose write takes minutes does not take over, though its disk works again."},
	{"rank_lowered_unheard", "expect leader 5", "A member that missed a lowered priority compares ranks by the earlier one."},
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
