package lab

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/batuta-dev/batuta/internal/web"
)

// program is the simulator's package.
const program = "github.com/batuta-dev/batuta/internal/command/lab/wasm"

// Build compiles the simulator and gives it compressed, with the script of the go
// command's own version that loads it. It needs the go command and batuta's source. level is gzip's.
func Build(ctx context.Context, level int) (map[string][]byte, error) {
	source, err := sourceDir(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "batuta-lab-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	modules, err := modulesAt(source, dir)
	if err != nil {
		return nil, err
	}
	build := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-gcflags=all=-l"} // not inlined it is smaller by 100 kB, and no slower
	build = append(build, modules.flags...)
	files := map[string][]byte{}
	for name, of := range map[string][2]string{simulator: {"-tags=noquorum", program}, simulatorOfQuorum: {"-tags=", program}, simulatorOfSuperpeers: {"-tags=", program + "/superpeers"}} {
		out := filepath.Join(dir, name)
		if _, err := goCommand(ctx, source, modules.work, append(slices.Clip(build), of[0], "-o", out, of[1])...); err != nil {
			return nil, err
		}
		code, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		files[name] = web.Compressed(whole(code), level)
	}
	root, err := goCommand(ctx, source, "off", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	files[loader], err = os.ReadFile(filepath.Join(root, "lib", "wasm", loader))
	return files, err
}

// sourceDir is where batuta's source is: where this program was compiled, or the module
// in which it is run.
func sourceDir(ctx context.Context) (string, error) {
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		dir := filepath.Dir(file)
		if _, err := os.Stat(filepath.Join(dir, "wasm", "main.go")); err == nil {
			return dir, nil
		}
	}
	dir, err := goCommand(ctx, ".", os.Getenv("GOWORK"), "list", "-f", "{{.Dir}}", program)
	if err != nil {
		return "", errors.New("this program neither carries it nor finds batuta's source: use a release, install it again with \"go install\", or run \"go run ./cmd/batuta lab\" in a checkout")
	}
	return dir, nil
}

// modules is where the go command finds batuta's modules: in the workspace work, or by flags.
type modules struct {
	work  string
	flags []string
}

// modulesAt finds those of the source: in a checkout by its go.work, in the module cache by a copy of go.mod in dir,
// which gets the sums of all of batuta's modules.
func modulesAt(source, dir string) (modules, error) {
	work := filepath.Join(source, "..", "..", "..", "go.work")
	if _, err := os.Stat(work); err == nil {
		return modules{work: work}, nil
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(source, "..", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return modules{}, err
		}
	}
	return modules{work: "off", flags: []string{"-mod=mod", "-modfile=" + filepath.Join(dir, "go.mod")}}, nil
}

// goCommand runs the go command for the browser, in a workspace, and gives what it prints.
func goCommand(ctx context.Context, dir, work string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=", "GOWORK="+work, "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(errs.String())
		if said == "" {
			return "", err
		}
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, said)
	}
	return strings.TrimSpace(out.String()), nil
}

// whole replaces the segments of a program's data by a single one. The go command begins a segment
// after each eight zeros, up to 100,000: compressed, their offsets are larger than the zeros.
func whole(code []byte) []byte {
	at := 8 // behind the magic number and the version
	number := func() int {
		v, size := binary.Uvarint(code[at:])
		at += size
		return int(v)
	}
	for at < len(code) {
		section := at
		at++
		size := number()
		end := at + size
		if code[section] != 11 { // it is not the data
			at = end
			continue
		}
		var memory []byte
		for range number() {
			if code[at] != 0 || code[at+1] != 0x41 { // active, i32.const
				return code
			}
			at += 2
			offset := number()
			at++ // end of the offset
			size := number()
			memory = append(memory, make([]byte, max(0, offset+size-len(memory)))...)
			copy(memory[offset:], code[at:at+size])
			at += size
		}
		segment := append(binary.AppendUvarint([]byte{1, 0, 0x41, 0, 0x0b}, uint64(len(memory))), memory...)
		return slices.Concat(code[:section], binary.AppendUvarint([]byte{11}, uint64(len(segment))), segment, code[end:])
	}
	return code
}
