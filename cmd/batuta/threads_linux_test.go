package main

import (
	"os/exec"
	"syscall"
	"testing"
)

// A process that ends with the thread that has started it outlives what this package's tests do on threads
// of their own: an agent that one test has started died with a thread that another had ended.
func TestTheTestsEndNoThread(t *testing.T) {
	l := newLAN(t, 1)
	dial := l.dialer(1)
	var children []*exec.Cmd
	for range 20 {
		cmd := exec.Command("sleep", "100")
		cmd.SysProcAttr = childAttributes()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
		if _, err := dial(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
			t.Error("somebody answers where nobody listens")
		}
		t.Run("cluster", func(t *testing.T) {
			if c, err := newCluster(1); err != nil {
				t.Error(err)
			} else {
				c.close()
			}
		})
	}
	for _, cmd := range children {
		if cmd.Process.Signal(syscall.SIGTERM); cmd.Wait() == nil || cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("a process ended before it was told to: %v", cmd.ProcessState)
		}
	}
}
