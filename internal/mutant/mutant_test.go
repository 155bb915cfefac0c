package mutant_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/batuta-dev/batuta/internal/mutant"
)

// A mutant is found by its test; one that no longer fits the source says so.
func TestAMutantIsCaughtOrDoesNotFit(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":        "module sums\n\ngo 1.24\n",
		"sum.go":        "package sums\n\nfunc Sum(a, b int) int { return a + b }\n",
		"sum_test.go":   "package sums\n\nimport \"testing\"\n\nfunc TestSum(t *testing.T) {\n\tif Sum(2, 2) != 4 {\n\t\tt.Error(\"2 + 2\")\n\t}\n}\n",
		"other_test.go": "package sums\n\nimport \"testing\"\n\nfunc TestZero(t *testing.T) {\n\tif Sum(0, 0) != 0 {\n\t\tt.Error(\"0 + 0\")\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for new, want := range map[string]string{"a - b": "TestSum", "a * b": "", "a / b": "a panic"} {
		m := mutant.Mutant{Name: new, File: "sum.go", Old: "a + b", New: new}
		overlay, err := m.Overlay(root, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		by, err := mutant.Fails(t.Context(), root, overlay, ".", t.TempDir(), "-test.shuffle=off")
		if want == "a panic" {
			want = "TestZero" // it is the first to run
		}
		if err != nil || by != want {
			t.Errorf("%s is caught by %q (%v), want %q", new, by, err, want)
		}
	}
	for old, count := range map[string]string{"a % b": "0 times", "int": "2 times"} {
		_, err := mutant.Mutant{Name: "lost", File: "sum.go", Old: old}.Overlay(root, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), count) || !strings.Contains(err.Error(), `"lost"`) {
			t.Errorf("%q: %v, want an error that names the mutant and says %s", old, err, count)
		}
	}
}
