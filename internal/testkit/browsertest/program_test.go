package browsertest

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/command/lab"
)

var dir string // for what is built

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if dir, err = os.MkdirTemp("", "batuta-browsertest-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		defer func() {
			if served.process != nil {
				served.process.kill()
			}
		}()
		defer func() {
			if shared.end != nil {
				shared.end()
			}
		}()
		return m.Run()
	}())
}

// program is batuta as a release is: it carries the lab, which is compiled here, once for all tests.
var program = sync.OnceValues(func() (string, error) {
	files, err := lab.Build(context.Background(), gzip.BestCompression)
	if err != nil {
		return "", err
	}
	built, err := filepath.Abs("../../command/lab/built") // as if "go generate" had written there
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for name := range files {
		replace[filepath.Join(built, name)] = filepath.Join(dir, "built", name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	files["overlay.json"] = overlay
	if err := lab.Write(filepath.Join(dir, "built"), files); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "batuta")
	build := exec.Command("go", "build", "-tags", "lab", "-overlay", filepath.Join(dir, "built", "overlay.json"), "-o", file, "./cmd/batuta")
	build.Dir = "../../.." // its module
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

// process is a batuta that runs.
type process struct {
	cmd   *exec.Cmd
	lines chan string // what it prints; closed at its end
}

// start runs batuta until the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := launch(t, args...)
	t.Cleanup(p.kill)
	return p
}

// launch runs batuta until it is killed.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	chromium(t) // who has none has no use for it
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: exec.Command(file, args...), lines: make(chan string, 10_000)}
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			p.lines <- in.Text()
		}
	}()
	return p
}

// kill ends it at once, as kill -9 does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	for range p.lines {
	}
	_ = p.cmd.Wait()
}

// line waits for a line that begins so, and gives its rest.
func (p *process) line(t *testing.T, prefix string) string {
	t.Helper()
	for deadline := time.After(5 * time.Minute); ; {
		select {
		case line, ok := <-p.lines:
			if !ok {
				t.Fatalf("it has ended before it said %q", prefix)
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return rest
			}
		case <-deadline:
			t.Fatalf("it never says %q", prefix)
		}
	}
}
