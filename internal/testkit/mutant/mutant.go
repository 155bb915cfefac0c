// Package mutant changes a place of the source for a test. The compiler gets a changed copy of a
// file (go build -overlay), so the source needs no hook for it. Tests use it to prove that a
// check can fail.
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

// Mutant is a source with a single mistake.
type Mutant struct {
	Name     string
	File     string // below the module's root
	Old, New string // Old occurs in it exactly once
	By       string // what catches it
}

// Overlay writes the changed file, and a list for go's -overlay, to dir. It returns the path of
// the list. It fails unless File contains Old exactly once: then the source has changed, and the
// mutant must follow.
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

// change returns the source with Old replaced.
func (m Mutant) change(source []byte) ([]byte, error) {
	if n := strings.Count(string(source), m.Old); n != 1 {
		return nil, fmt.Errorf("mutant %q: %s holds %d times, not once:\n%s\nthe source has changed: bring the mutant up to date with it", m.Name, m.File, n, m.Old)
	}
	return []byte(strings.Replace(string(source), m.Old, m.New, 1)), nil
}

// Build compiles the tests of a package with the overlay, to a binary in dir. pkg is a path
// below root such as ./internal/sim.
func Build(ctx context.Context, root, overlay, pkg, dir string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(pkg)+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, pkg)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOGC=400") // it then takes a fifth less processor time
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// Fails runs a package's tests with m in place. flags such as -test.run=^TestLead$ choose them.
// It returns the first test that fails, "" if none does, or "a panic" if they end without a
// result.
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
