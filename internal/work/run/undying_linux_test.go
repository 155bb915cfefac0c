package run

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/batuta-dev/batuta/internal/work/run/runtest"
	"golang.org/x/sys/unix"
)

// undying makes a process stay in the kernel when it is killed, until release.
func undying(t *testing.T, pid int) (release func()) {
	t.Helper()
	traced, end, over := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread() // the tracer is a thread
		defer runtime.UnlockOSThread()
		if _, _, err := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXIT, 0, 0); err != 0 {
			traced <- err
			return
		}
		traced <- nil
		<-end
		var status unix.WaitStatus
		for {
			if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != unix.EINTR {
				break
			}
		}
		unix.PtraceDetach(pid)
	}()
	if err := <-traced; err != nil {
		t.Skipf("this process may not trace: %v", err)
	}
	return func() { close(end); <-over }
}

// A killed process may wait in the kernel for longer than the lease, such as for a lock. The guard
// does not wait for its end before it removes what the command has.
func TestAGuardRemovesWhatACommandHasThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	has := filepath.Join(t.TempDir(), "has")
	if err := os.WriteFile(has, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFactory(t)
	r := beginRun(t, ample, &Command{Argv: f.argv("deaf"), Env: os.Environ(), Grace: long}, &guardedRun{factory: f, clears: []string{has}})
	w := f.Next()
	release := undying(t, w.Pid)
	r.renew.Store(false)
	for late := time.Now().Add(runtest.Patience); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(has); errors.Is(err, fs.ErrNotExist) {
			break
		} else if time.Now().After(late) {
			t.Error("the guard does not remove what a command has that does not end")
			break
		}
	}
	select {
	case <-r.over:
		t.Error("the run is over while its command runs")
	default:
	}
	release()
	if got := r.wait(); got.Signal != syscall.SIGKILL || !got.Expired {
		t.Errorf("ended as %+v; want it killed at the end of its lease", got)
	}
}
