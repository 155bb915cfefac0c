// Package mutant changes one place of the source for a test: the compiler is given a
// changed copy of one file (go build -overlay), so that no seam is needed in it. Tests
// use it to show that what checks the source is able to fail.
package mutant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// Mutant is a source with one thing wrong.
type Mutant struct {
	Name     string
	File     string // below the module's root
	Old, New string // Old stands in it exactly once
	By       string // what catches it
}

// Overlay writes the changed file, and the list of it that go's -overlay wants, to dir
// and gives that list's path. It fails if Old is not in the file, or more than once:
// the source has moved on, and the mutant is to follow.
func (m Mutant) Overlay(root, dir string) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, filepath.FromSlash(m.File))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	text, err := m.change(source)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	return overlay, errors.Join(err,
		os.WriteFile(changed, text, 0o600),
		os.WriteFile(overlay, replace, 0o600))
}

// change gives the file's source with the mutant's place changed.
func (m Mutant) change(source []byte) ([]byte, error) {
	if n := strings.Count(string(source), m.Old); n != 1 {
		return nil, fmt.Errorf("mutant %q: %s holds %d times, not once:\n%s\nthe source has changed: bring the mutant up to date with it", m.Name, m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(source), m.Old, m.New, 1)), nil
}

// Build compiles the tests of a package, a path below root such as ./internal/sim, with the
// overlay in place, to a binary in dir.
func Build(ctx context.Context, root, overlay, pkg, dir string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(pkg)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// Fails runs a package's tests, chosen by flags such as -test.run=^TestLead$, with m in
// place, and gives the first that fails, "" if none does, "a panic" if they end without a word.
func (j *Joined) Fails(ctx context.Context, m Mutant, pkg string, flags ...string) (string, error) {
	cmd, err := j.Command(ctx, m, pkg, append(flags, "-test.v", "-test.failfast")...)
	if err != nil {
		return "", err
	}
	out, err := cmd.CombinedOutput()
	switch name := failed.FindSubmatch(out); {
	case err == nil && !strings.Contains(string(out), "=== RUN"):
		return "", fmt.Errorf("no test of %s matches %q", pkg, flags)
	case err == nil:
		return "", nil
	case name == nil:
		return "a panic", nil
	default:
		return string(name[1]), nil
	}
}
