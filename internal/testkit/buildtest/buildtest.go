// Package buildtest builds programs for tests that start them as processes.
package buildtest

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// Program builds the program of a package, such as ../cmd/batuta, and returns its path. "go run" keeps the
// linked program in the build cache, which "go build" does not: the next test that needs it gets a copy.
func Program(t testing.TB, pkg string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "run", "-ldflags=-s -w", "-exec=cp", pkg, path).CombinedOutput(); err != nil {
		t.Fatalf("go run -exec=cp %s: %v\n%s", pkg, err, out)
	}
	return path
}
