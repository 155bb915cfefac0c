package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/command/cli"
	"github.com/batuta-dev/batuta/internal/work/hooks"
)

// mounted mounts something on target for the length of the test. It skips the test where
// that is not allowed, unless BATUTA_TEST_NETNS claims root's rights.
func mounted(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		if os.Getenv("BATUTA_TEST_NETNS") != "" {
			t.Fatalf("mount on %s: %v", target, err)
		}
		t.Skipf("cannot mount a file system here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", target, err)
		}
	})
}

// smallDisk mounts a file system of so many KiB.
func smallDisk(t *testing.T, kib int) string {
	dir := t.TempDir()
	mounted(t, "tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dk,mode=0700", kib))
	return dir
}

// enterable is a directory that each user may enter.
func enterable(t *testing.T) string {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// used is a data directory that an agent has had before.
func used(t *testing.T, algorithm string) string {
	dir := filepath.Join(enterable(t), "data")
	startAndEnd(t, algorithm, dir)
	return dir
}

// startAndEnd has an agent lead, and ends it.
func startAndEnd(t *testing.T, algorithm, dir string) {
	t.Helper()
	a := startLone(t, "--algorithm", algorithm, "--data-dir", dir)
	said(t, bufio.NewScanner(a.stdout), "leader")
	a.cmd.Process.Signal(syscall.SIGTERM)
	if err := a.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// failing has each read of a file fail with EIO: it puts the memory of a process over
// the file, and the kernel has nothing at its first page.
func failing(t *testing.T, dir, file string) {
	mounted(t, fmt.Sprintf("/proc/%d/mem", os.Getpid()), filepath.Join(dir, file), "", unix.MS_BIND, "")
}

// A start that the machine refuses ends with one sentence, which names the place and the
// remedy, and with exit code 1: the same start can succeed later.
func TestAStartThatTheMachineRefuses(t *testing.T) {
	unprivileged := &syscall.Credential{Uid: 65534, Gid: 65534}
	for name, test := range map[string]struct {
		algorithms string
		dir        func(t *testing.T, algorithm string) string
		user       *syscall.Credential
		remedy     string
	}{
		"full":         {"bully quorum", func(t *testing.T, _ string) string { return full(t) }, nil, "no space left on device: make room on that file system"},
		"full for log": {"quorum", func(t *testing.T, _ string) string { return smallDisk(t, 64) }, nil, "no space left on device: make room on that file system"},
		"read-only": {"bully quorum", func(t *testing.T, algorithm string) string {
			dir := used(t, algorithm)
			mounted(t, dir, dir, "", unix.MS_BIND, "")
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
				t.Fatal(err)
			}
			return dir
		}, nil, "read-only file system: mount that file system writable"},
		"not allowed": {"bully quorum", used, unprivileged, "permission denied: make it readable and writable for this user"},
		"not allowed, new": {"bully quorum", func(t *testing.T, _ string) string { return filepath.Join(enterable(t), "new") }, unprivileged,
			"permission denied: make it readable and writable for this user"},
		"state fails": {"bully quorum", func(t *testing.T, algorithm string) string {
			dir := used(t, algorithm)
			failing(t, dir, "state")
			return dir
		}, nil, "input/output error: the disk fails: replace it"},
		"log fails": {"quorum", func(t *testing.T, algorithm string) string {
			dir := used(t, algorithm)
			failing(t, dir, "log")
			return dir
		}, nil, "input/output error: the disk fails: replace it"},
	} {
		for algorithm := range strings.FieldsSeq(test.algorithms) {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				dir := test.dir(t, algorithm)
				text, code := refusedStart(t, test.user, "", "--algorithm", algorithm, "--data-dir", dir)
				oneSentence(t, text, code, dir, test.remedy)
			})
		}
	}
}

// full is a data directory on a file system that has no room left.
func full(t *testing.T) string {
	t.Helper()
	dir := smallDisk(t, 8)
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	fill(t, dir)
	return filepath.Join(dir, "data")
}

// fill leaves no room on the file system of dir.
func fill(t *testing.T, dir string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk takes a megabyte: %v", err)
	}
}

// What an agent has saved has its room: on a disk that is full by now it starts again and leads, each time.
func TestAnAgentStartsAgainOnAFullDisk(t *testing.T) {
	for _, algorithm := range []string{"bully", "quorum"} {
		t.Run(algorithm, func(t *testing.T) {
			disk := smallDisk(t, 1024)
			for range 3 {
				startAndEnd(t, algorithm, filepath.Join(disk, "data"))
				fill(t, disk)
			}
		})
	}
}

// With each limit of open files an agent starts, or ends with a sentence and exit code 1.
// Below the least one the language's own runtime does not start.
func TestAStartWithFewOpenFiles(t *testing.T) {
	const runtimeNeeds = 8
	for _, algorithm := range []string{"bully", "quorum"} {
		t.Run(algorithm, func(t *testing.T) {
			refused := 0
			for files := runtimeNeeds; ; files++ {
				if files > 64 {
					t.Fatal("no number of open files is enough")
				}
				dir := filepath.Join(t.TempDir(), "data")
				text, code := refusedStart(t, nil, fmt.Sprint("-n ", files), "--algorithm", algorithm, "--data-dir", dir)
				if code == 0 {
					break
				}
				refused++
				oneSentence(t, text, code, "", "too many open files: raise the limit of open files")
			}
			if refused == 0 {
				t.Errorf("%d open files are enough", runtimeNeeds)
			}
		})
	}
}

// refusedStart gives what an agent that does not start writes to its log, and its exit
// code: 0 for one that starts, which is ended. limits are of the shell's ulimit; "": as they are.
func refusedStart(t *testing.T, user *syscall.Credential, limits string, flags ...string) (text string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), agreeWithin)
	defer cancel()
	script := `ulimit ${1:--n hard}; shift; exec -a batuta "$0" agent --id 1 --listen 127.0.0.1:0 --http 127.0.0.1:0 "$@"`
	cmd := exec.CommandContext(ctx, "bash", append([]string{"-c", script, os.Args[0], limits}, flags...)...)
	cmd.SysProcAttr = hooks.ChildAttributes()
	if user != nil { // it may not enter the directory of the test binary
		program, err := os.Open(os.Args[0])
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		cmd.ExtraFiles, cmd.Args[3] = []*os.File{program}, "/proc/self/fd/3"
		cmd.SysProcAttr.Credential = user
	}
	cmd.WaitDelay = time.Second
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if bufio.NewScanner(stdout).Scan() {
		cmd.Process.Signal(syscall.SIGTERM)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		t.Fatalf("it neither starts nor ends: %s", stderr.String())
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return stderr.String(), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stderr.String(), 0
}

// oneSentence checks how a refused start ends.
func oneSentence(t *testing.T, text string, code int, place, remedy string) {
	t.Helper()
	if code != cli.Failed || strings.Count(text, "\n") != 1 || !strings.Contains(text, place) || !strings.Contains(text, remedy) {
		t.Errorf("exit code %d, want %d and one line that names %q and ends with %q:\n%s", code, cli.Failed, place, remedy, text)
	}
}

// A disk with too little room, and one with none, are findings.
func TestCheckFindsAFullDisk(t *testing.T) {
	small := smallDisk(t, 1024)
	for _, test := range []struct{ dir, want string }{
		{small, "1 MiB are free: make room: 64 MiB or more"},
		{full(t), "no space left on device: make room on that file system"},
	} {
		var out strings.Builder
		code := run(t.Context(), []string{"check", "--id", "1", "--listen", "127.0.0.1:1", "--t-process", "5s", "--data-dir", test.dir}, cli.Env{Stdout: &out, Stderr: io.Discard, Lookup: os.LookupEnv})
		if code != cli.Failed || !strings.Contains(out.String(), test.want) {
			t.Errorf("exit code %d, want %d and %q in:\n%s", code, cli.Failed, test.want, out.String())
		}
	}
}
