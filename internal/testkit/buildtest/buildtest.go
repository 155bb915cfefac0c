// Package buildtest builds programs for tests that start them as processes.
package buildtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// Program builds the program of a package, such as ../cmd/batuta, and returns its path.
func Program(t testing.TB, pkg string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), filepath.Base(pkg))
	if err := Build(pkg, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Build builds the program of a package at path. "go run" keeps the linked program in the build
// cache, which "go build" does not: whatever asks for it next gets a copy.
func Build(pkg, path string) error {
	out, err := exec.Command("go", "run", "-ldflags=-s -w", "-exec=cp", pkg, path).CombinedOutput()
	if err != nil {
		return fmt.Errorf("go run -exec=cp %s: %w\n%s", pkg, err, out)
	}
	return nil
}
