package mutant_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/testkit/mutant"
)

// A mutant is found by its test, joined with others or alone; what is no mutant by none;
// one that no longer fits the source says so.
func TestAMutantIsCaughtOrDoesNotFit(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module sums\n\ngo 1.24\n",
		"sum.go":        "package sums\n\nconst zero = 0\n\nfunc Sum(a, b int) int { return a + b }\n\ntype all []int\n\nfunc (_ all) of(_ int, more ...int) (s int) {\n\tfor _, n := range more {\n\t\ts = Sum(s, n)\n\t}\n\treturn s + zero\n}\n",
		"sum_test.go":   "package sums\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(2, 2) != 4 {\n\t\tt.Error(\"2 + 2\")\n\t}\n}\n",
		"other_test.go": "package sums\n\nimport \"testing\"\n\nfunc TestOthers(t *testing.T) {\n\tif Sum(0, 0) != 0 || all.of(nil, 0, 1, 2) != 3 {\n\t\tt.Error(\"0 + 0\")\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const broken = "does not compile"
	mutants := []mutant.Mutant{
		{Name: "minus", Old: "a + b", New: "a - b", By: "TestOthers"},
		{Name: "times", Old: "a + b", New: "a * b", By: "TestOthers"},
		{Name: "quotient", Old: "a + b", New: "a / b", By: "TestOthers"}, // it panics
		{Name: "turned", Old: "a + b", New: "b + a", By: ""},
		{Name: "the last alone", Old: "s = Sum(s, n)", New: "s = n - 1", By: "TestOthers"},
		{Name: "no function's body", Old: "const zero = 0", New: "const zero = 1", By: "TestOthers"},
	}
	for i := range mutants {
		mutants[i].File = "sum.go"
	}
	for _, set := range [][]mutant.Mutant{mutants, append(mutants, mutant.Mutant{Name: broken, File: "sum.go", Old: "return s + zero", New: "return x"})} {
		joined, err := mutant.Join(root, t.TempDir(), set)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range append(set, mutant.Mutant{}) {
			by, err := joined.Fails(t.Context(), m, ".", "-test.shuffle=off")
			fails := len(set) > len(mutants) && (m.Name == broken || m.Name == "")
			if (err != nil) != fails || by != m.By {
				t.Errorf("%q of %d is caught by %q (%v), want %q", m.Name, len(set), by, err, m.By)
			}
		}
	}
	for old, count := range map[string]string{"a % b": "0 times", "int": "6 times"} {
		m := mutant.Mutant{Name: "lost", File: "sum.go", Old: old}
		_, err := m.Overlay(root, t.TempDir())
		_, joining := mutant.Join(root, t.TempDir(), []mutant.Mutant{m})
		for _, err := range []error{err, joining} {
			if err == nil || !strings.Contains(err.Error(), count) || !strings.Contains(err.Error(), `"lost"`) {
				t.Errorf("%q: %v, want an error that names the mutant and says %s", old, err, count)
			}
		}
	}
}
