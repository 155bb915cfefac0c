package sim_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/sim/invariant"
)

// Each rule says why, and names a mutant that breaks it if the tables have any.
func TestRulesNameTheirMutants(t *testing.T) {
	breaks := map[string][]string{}
	for _, m := range mutants() {
		if _, rule, ok := strings.Cut(m.By, ": "); ok {
			breaks[rule] = append(breaks[rule], m.Name)
		}
	}
	known := map[string]bool{}
	for _, r := range invariant.Rules() {
		if known[r.Name] || r.Why == "" || r.Where == "" {
			t.Errorf("%q stands twice, or does not say why it is there or what checks it", r.Name)
		}
		known[r.Name] = true
		found := false
		for _, name := range breaks[r.Name] {
			found = found || name == r.Mutant
		}
		if !found && (r.Mutant != "" || len(breaks[r.Name]) > 0) {
			t.Errorf("%q names the mutant %q; those that break it are %q", r.Name, r.Mutant, breaks[r.Name])
		}
	}
	for rule, names := range breaks {
		if !known[rule] {
			t.Errorf("the mutants %q break %q, which is no rule", names, rule)
		}
	}
}

// docs/verification.md lists the rules as the registry has them; -update writes that.
func TestRulesAreDocumented(t *testing.T) {
	const file, from, to = "../docs/verification.md", "<!-- rules -->\n", "<!-- end of rules -->\n"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), from)
	found, after, ends := strings.Cut(rest, to)
	if !ok || !ends {
		t.Fatalf("%s has no place for the rules between %q and %q", file, from, to)
	}
	var b strings.Builder
	b.WriteString("| rule | why | where | a mutant that breaks it |\n| --- | --- | --- | --- |\n")
	for _, r := range invariant.Rules() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Name, r.Why, r.Where, r.Mutant)
	}
	if *update {
		if err := os.WriteFile(file, []byte(before+from+b.String()+to+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if found != b.String() {
		t.Errorf("the rules in %s are others: take them over with go test ./sim -run RulesAreDocumented -update", file)
	}
}
