package simtest_test

import (
	"fmt"
	"strings"
	"testing"
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
	for _, r := range rules() {
		if known[r.Name] || r.Why == "" || r.Where == "" {
			t.Errorf("%q is listed twice, or without a reason or a check", r.Name)
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

// docs/verification-rules.md lists the rules as the registry has them; -update writes that.
func TestRulesAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| rule | why | where | a mutant that breaks it |\n| --- | --- | --- | --- |\n")
	for _, r := range rules() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Name, r.Why, r.Where, r.Mutant)
	}
	documented(t, "docs/verification-rules.md", "rules", b.String())
}
