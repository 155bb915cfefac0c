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
	return ProgramOf(t, ".", pkg)
}

// ProgramOf builds the program of a package of the module in a directory.
func ProgramOf(t testing.TB, module, pkg string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), filepath.Base(pkg))
	if out, err := exec.Command("go", "-C", module, "run", "-ldflags=-s -w", "-exec=cp", pkg, path).CombinedOutput(); err != nil {
		t.Fatalf("go -C %s run -exec=cp %s: %v\n%s", module, pkg, err, out)
	}
	return path
}
