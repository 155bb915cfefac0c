// Package simtest_test has the tests of the simulator that need a quorum: mutants of all cores, the rules that
// they break, and what a quorum has of its own.
package simtest_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/election"
	"github.com/batuta-dev/batuta/election/bully"
	"github.com/batuta-dev/batuta/election/ring"
	"github.com/batuta-dev/batuta/electiontest"
	"github.com/batuta-dev/batuta/internal/sim"
	"github.com/batuta-dev/batuta/internal/sim/draw"
	"github.com/batuta-dev/batuta/internal/sim/explore"
	"github.com/batuta-dev/batuta/internal/sim/scenario"
	"github.com/batuta-dev/batuta/internal/testkit/fulltest"
	"github.com/batuta-dev/batuta/internal/testkit/mutant"
	"github.com/batuta-dev/batuta/quorum"
)

func init() { fulltest.MostlyComputes() }

// mutants are the core and the algorithms with one thing wrong. By is one of
//
//	soak ALGORITHM FROM:TO: RULE    random schedules, of which some break that rule;
//	                                membership for ALGORITHM: Bully, and members come and go; founding: that, and who may lead first is drawn
//	                                elections, quorum-elections: Bully or a quorum, with named elections
//	                                quorum-attested: a quorum whose leaders have guards
//	                                quorum-handovers: a quorum with leaderships that end slowly
//	                                quorum-takeovers: the same, and guards attest ends of leaders
//	                                quorum-claimants: a quorum of which members come and go, with second processes
//	                                full, quorum-full: Bully or a quorum of which members come and go, with disks that are
//	                                full, and no other fault of a disk
//	explore PROBE                   the exhaustive search of a small cluster
//	scenario FILE                   a rule, an expectation or the trace of that file; with ": RULE", that rule
//	test PACKAGE NAME               a unit test
func mutants() (all []mutant.Mutant) {
	for _, w := range slices.Concat(coreMutants, memberMutants, bullyMutants, ringMutants, quorumMutants, namedMutants) {
		all = append(all, mutant.Mutant(w))
	}
	return all
}

// wrong is a mutant in the tables.
type wrong struct{ Name, File, Old, New, By string }

var update = flag.Bool("update", false, "write the tables into their pages")

// TestMutants breaks the core in single ways and demands that what is said to catch
// each does. When it does not, everything else is tried and told.
func TestMutants(t *testing.T) {
	if raced {
		t.Skip("mutants are compiled without -race")
	}
	every := fulltest.Size(40, 1)
	var tried []mutant.Mutant
	for i, m := range mutants() {
		if i%every == 0 {
			tried = append(tried, m)
		}
	}
	joined, err := mutant.Join(root, t.TempDir(), mutants()) // all, so that one that does not compile is seen at once
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]bool{}
	for _, m := range tried {
		how, _, _ := strings.Cut(m.By, ": ")
		ways[how] = true
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			h := &hunt{T: t, mutant: m, joined: joined}
			if m.By != "" && h.caughtBy(m.By) {
				return
			}
			if by := h.search(); by != "" {
				t.Errorf("mutant of %s: %q does not catch it, but this does: %q", m.File, m.By, by)
				return
			}
			t.Errorf("mutant of %s: it lives, and nothing sees this", m.File)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		h := &hunt{T: t, joined: joined}
		for how := range ways {
			if h.caughtBy(how) {
				t.Errorf("%q catches what is no mutant: %s", how, h.how)
			}
		}
	})
}

// TestMutantsFit: each has the text that it changes, and all of them can be parsed.
func TestMutantsFit(t *testing.T) {
	if _, err := mutant.Join(root, t.TempDir(), mutants()); err != nil {
		t.Error(err)
	}
	names := map[string]bool{}
	for _, m := range mutants() {
		if _, err := m.Overlay(root, t.TempDir()); err != nil {
			t.Error(err)
		}
		if m.By == "" || names[m.Name] {
			t.Errorf("mutant %q: it is not said what catches it, or there are two of this name", m.Name)
		}
		names[m.Name] = true
	}
}

// docs/verification-mutants.md names what catches each; -update writes that.
func TestMutantsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| mutant | of | caught by |\n| --- | --- | --- |\n")
	for _, m := range mutants() {
		how, rule, isRule := strings.Cut(m.By, ": ")
		if isRule {
			how += ": *" + rule + "*"
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", m.Name, m.File, how)
	}
	documented(t, "docs/verification-mutants.md", "mutants", b.String())
}

// hunt is the search for what catches one mutant.
type hunt struct {
	*testing.T
	mutant mutant.Mutant
	joined *mutant.Joined
	how    string // what the last that caught it has said
}

const root = "../.."

// caughtBy tries one way.
func (h *hunt) caughtBy(by string) bool {
	h.Helper()
	const limit = "-test.timeout=10m" // a mutant that does not end is caught, too
	if words := strings.Fields(by); words[0] == "test" {
		return h.fails(words[1], "-test.run=^"+words[2]+"$", limit) != ""
	}
	cmd, err := h.joined.Command(h.Context(), h.mutant, "./quorum/simtest", "-test.run=^TestHunt$", "-test.v", limit)
	if err != nil {
		h.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "BATUTA_HUNT="+by)
	out, err := cmd.CombinedOutput()
	_, how, found := strings.Cut(string(out), "caught: ")
	h.how, _, _ = strings.Cut(how, "\n")
	switch {
	case err == nil:
		return false
	case !found && !strings.Contains(string(out), "panic: "):
		h.Fatalf("%s: %v\n%s", by, err, out)
	default:
		h.Log(h.how)
	}
	return true
}

// fails gives the first of a package's tests that fails, "" if none does.
func (h *hunt) fails(pkg string, flags ...string) string {
	h.Helper()
	name, err := h.joined.Fails(h.Context(), h.mutant, "./"+pkg, flags...)
	if err != nil {
		h.Fatal(err)
	}
	return name
}

// search tries all ways, those first that need the fewest words to be believed.
func (h *hunt) search() string {
	dir := path.Dir(h.mutant.File)
	algorithms := map[string][]string{"election/bully": {"bully"}, "election/ring": {"ring", "chang-roberts"}, "quorum": {"quorum"}}[dir]
	if algorithms == nil {
		algorithms = []string{"bully", "membership", "founding", "ring", "chang-roberts"}
	}
	const at = 500
	for from := 1; from <= 2*at; from += at {
		for _, a := range algorithms {
			if by := fmt.Sprintf("soak %s %d:%d", a, from, from+at-1); h.caughtBy(by) {
				_, rule, _ := strings.Cut(h.how, ": ")
				return by + ": " + rule
			}
		}
	}
	for _, pkg := range slices.Compact([]string{dir, "internal/core/machine", "election/bully", "election/ring"}) {
		name := h.fails(pkg, "-test.skip=^Test(Soak|Scenarios|Explore|ClosedForms|RandomOrder)$")
		if name != "" {
			return "test " + pkg + " " + name
		}
	}
	for _, pattern := range []string{"../../election/bully/testdata/*.txt", "../../election/ring/testdata/*/*.txt", "../../quorum/testdata/*.txt"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if by := "scenario " + strings.TrimPrefix(filepath.ToSlash(file), "../../"); h.caughtBy(by) {
				return by
			}
		}
	}
	for _, probe := range []string{"descending", "all"} {
		if by := "explore " + probe; h.caughtBy(by) {
			return by
		}
	}
	return ""
}

// TestHunt is what the changed lab is run for, with one way of catching in its
// environment: it fails when that catches something.
func TestHunt(t *testing.T) {
	by, ok := os.LookupEnv("BATUTA_HUNT")
	if !ok {
		by = "soak bully 1:2" // without the mutation, nothing is caught
	}
	how, rule, _ := strings.Cut(by, ": ")
	words := strings.Fields(how)
	switch words[0] {
	case "soak":
		huntBySoak(t, words[1], words[2], rule)
	case "explore":
		c := explore.Config{Algorithm: "bully", Option: words[1], Nodes: 3, Crashes: 1, Restarts: 1, OwnRounds: true, States: 100_000, Workers: 1}
		if r, err := explore.Search(t.Context(), anyMaker, c); err != nil || r.Violation != nil {
			t.Fatalf("caught: %d states: %v %v", r.States, r.Violation, err)
		}
	case "scenario":
		s, err := electiontest.Load("../../" + words[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := electiontest.Replay(anyMaker, s); err != nil && strings.Contains(err.Error(), rule) {
			first, _, _ := strings.Cut(err.Error(), "\n")
			t.Fatalf("caught: %s", first)
		}
	}
}

// huntBySoak looks for a broken rule, any if none is named.
func huntBySoak(t *testing.T, algorithm, seeds, rule string) {
	c := sim.SoakConfig{Algorithm: algorithm, Workers: 1}
	if _, err := fmt.Sscanf(seeds, "%d:%d", &c.From, &c.To); err != nil {
		t.Fatal(err)
	}
	c.Draws = slices.DeleteFunc(draw.Defaults(), func(d draw.Kind) bool { return d == draw.Founding && algorithm != "founding" })
	if strings.HasSuffix(algorithm, "elections") {
		c.Draws = append(c.Draws, draw.Elections)
	}
	switch algorithm {
	case "membership", "founding":
		c.Algorithm, c.Faults = "bully", append(sim.SoakFaults(), sim.MembershipFaults()...)
	case "elections":
		c.Algorithm = "bully"
	case "quorum-elections":
		c.Algorithm = "quorum"
	case "quorum-handovers":
		c.Algorithm, c.Draws = "quorum", []draw.Kind{draw.Handovers}
	case "quorum-takeovers":
		c.Algorithm, c.Draws = "quorum", []draw.Kind{draw.Handovers, draw.Attested}
	case "quorum-claimants":
		c.Algorithm, c.Draws, c.Faults = "quorum", []draw.Kind{draw.Claimants}, append(sim.SoakFaults(), sim.MembershipFaults()...)
	case "quorum-attested":
		c.Algorithm, c.Option = "quorum", "attested"
	case "full", "quorum-full":
		c.Algorithm, c.Draws = map[string]string{"full": "bully", "quorum-full": "quorum"}[algorithm], []draw.Kind{draw.Full}
		c.Faults = slices.DeleteFunc(append(sim.SoakFaults(), sim.MembershipFaults()...), func(v scenario.Verb) bool { return v == scenario.Disk })
	case "telling":
		c.Algorithm, c.Faults = "bully", append(sim.SoakFaults(), sim.TellingFaults()...)
	}
	if c.Algorithm == "bully" {
		c.Options = []string{"descending", "all"}
	}
	r, err := sim.Soak(t.Context(), anyMaker, c)
	if err != nil {
		t.Fatal(err)
	}
	if r.Violations > 0 && (rule == "" || r.ByRule[rule] > 0) {
		t.Fatalf("caught: seed %d and %d others: %s", r.Failing[0].Seed, r.Violations-1, r.Failing[0].Rule)
	}
}

// anyMaker knows every algorithm.
func anyMaker(algorithm, probe string) (func() election.Algorithm, error) {
	switch algorithm {
	case "bully":
		p := map[string]bully.Probe{"all": bully.All}[probe]
		return func() election.Algorithm { return bully.New(bully.WithProbe(p)) }, nil
	case "ring":
		return func() election.Algorithm { return ring.New() }, nil
	case "chang-roberts":
		return func() election.Algorithm { return ring.NewChangRoberts() }, nil
	}
	if algorithm == "quorum" {
		takeover := quorum.Takeover(cmp.Or(probe, string(quorum.TakeoverLease)))
		return func() election.Algorithm { return quorum.New(quorum.WithTakeover(takeover)) }, nil
	}
	return nil, errors.New("no such algorithm")
}
