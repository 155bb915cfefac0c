package stalltest

import (
	"os/exec"
	"syscall"
	"testing"
)

// EndsNoThread fails the test if disturb ends a thread that has started a process before. A
// process with these attributes ends with the thread that started it.
func EndsNoThread(t *testing.T, attributes *syscall.SysProcAttr, disturb func()) {
	t.Helper()
	var children []*exec.Cmd
	for range 20 {
		cmd := exec.Command("sleep", "100")
		cmd.SysProcAttr = attributes
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
		disturb()
	}
	for _, cmd := range children {
		if cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("a process ended before it was told to: %v", cmd.ProcessState)
		}
	}
}
