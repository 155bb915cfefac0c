package stalltest

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// A process that ends with the thread that has started it outlives a watch: threads go
// back when a watch is over, and do not end.
func TestAWatchEndsNoThread(t *testing.T) {
	var children []*exec.Cmd
	for range 20 {
		cmd := exec.Command("sleep", "100")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
		t.Run("watch", func(t *testing.T) {
			Start(t)
			time.Sleep(2 * period) // so that others run on this thread meanwhile
		})
	}
	for _, cmd := range children {
		if cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("a process ended before it was told to: %v", cmd.ProcessState)
		}
	}
}
