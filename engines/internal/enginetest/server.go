package enginetest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/testkit/freeport"
)

// Patience is how long a test waits for what must come about.
const Patience = time.Minute

// Program finds the program of a real engine. If it is not installed the test is skipped, and fails
// if BATUTA_TEST_ENGINES=1 is set. Directories are searched after PATH.
func Program(t testing.TB, name, debian string, directories ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	for _, pattern := range directories {
		found, _ := filepath.Glob(filepath.Join(pattern, name))
		slices.Sort(found)
		if len(found) > 0 {
			return found[len(found)-1]
		}
	}
	if os.Getenv("BATUTA_TEST_ENGINES") == "1" {
		t.Fatalf("%s is not installed; Debian has it in %s", name, debian)
	}
	t.Skipf("%s is not installed; Debian has it in %s", name, debian)
	return ""
}

// Ports gives n ports of loopback that are free.
func Ports(t testing.TB, n int) []int {
	t.Helper()
	ports, err := freeport.Find(n)
	if err != nil {
		t.Fatal(err)
	}
	return ports
}

// Server is the process of an engine.
type Server struct {
	t    testing.TB
	make func() *exec.Cmd
	cmd  *exec.Cmd
	said bytes.Buffer
}

// Serve starts what start makes, and ends it with the test.
func Serve(t testing.TB, start func() *exec.Cmd) *Server {
	t.Helper()
	s := &Server{t: t, make: start}
	s.Start()
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			said := s.said.Bytes()
			t.Logf("the end of what the server said:\n%s", said[max(0, len(said)-4000):])
		}
	})
	return s
}

// Start starts it, after Kill again.
func (s *Server) Start() {
	s.t.Helper()
	s.cmd = s.make()
	s.cmd.Stdout, s.cmd.Stderr = &s.said, &s.said
	if s.cmd.SysProcAttr == nil {
		s.cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	s.cmd.SysProcAttr.Setpgid = true
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends it as kill -9 does, with the processes that it has started.
func (s *Server) Kill() {
	if s.cmd != nil {
		s.Signal(syscall.SIGKILL)
		s.cmd.Wait() // its error is that it was killed
		s.cmd = nil
	}
}

// Signal sends a signal to it and to the processes that it has started.
func (s *Server) Signal(signal syscall.Signal) { syscall.Kill(-s.cmd.Process.Pid, signal) }

// Pid is the process that was started.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Fail kills it; it runs again after start.
func (s *Server) Fail() (start func()) {
	s.Kill()
	return s.Start
}

// Freeze stops it, as kill -STOP does, until thaw is called.
func (s *Server) Freeze() (thaw func()) {
	s.Signal(syscall.SIGSTOP)
	return func() { s.Signal(syscall.SIGCONT) }
}

// Await tries again until something has no error.
func Await(t testing.TB, what string, try func(context.Context) error) {
	t.Helper()
	var err error
	for late := time.Now().Add(Patience); time.Now().Before(late); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = try(ctx)
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("within %v it does not come about that %s: %v", Patience, what, err)
}
