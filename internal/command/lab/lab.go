// Package lab is the lab in the browser: the simulator as WebAssembly, and the page
// around it.
//
// The simulator is built from the source by the go command when the lab starts, so
// that it is that of this very checkout (or module, after go install): nothing that is
// built lies in the repository, and nothing can be out of date. A release has no source
// beside it; it is built with
//
//	go generate ./internal/command/lab && go build -tags lab ./cmd/batuta
//
// and carries the simulator within.
package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/batuta-dev/batuta/internal/web"
)

//go:generate go run ./generate built

// Files that the page needs beside its own.
const (
	simulator         = "lab.wasm.gz"
	simulatorOfQuorum = "lab-quorum.wasm.gz" // the same and raft, which is as large again: loaded where it is needed
	loader            = "wasm_exec.js"

	simulatorOfSuperpeers = "lab-superpeers.wasm.gz"
)

// Site is the lab as files: those compiled in, or built by the go command, with that level of gzip.
func Site(ctx context.Context, level int) (web.Site, error) {
	s := web.Lab()
	built := carried()
	if built == nil {
		var err error
		if built, err = Build(ctx, level); err != nil {
			return nil, fmt.Errorf("the lab's simulator has to be built: %w", err)
		}
	}
	maps.Copy(s, built)
	return s, nil
}

// Write puts files into a directory, which it makes, to be served by any web server.
func Write(dir string, files map[string][]byte) error {
	for name, body := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}
