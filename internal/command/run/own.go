package run

import (
	"os/exec"
	"sync"
)

// own are the children that this process has started itself. Any further child was adopted: it
// descends from a process that has ended.
var own = started{pids: map[int]*exec.Cmd{}}

type started struct {
	sync.Mutex
	pids map[int]*exec.Cmd
}

// keep counts a child as this process's own though it has not started it.
func (s *started) keep(pid int) {
	if s.pids[pid] == nil {
		s.pids[pid] = &exec.Cmd{}
	}
}

// StartChild is c.Start for a process that has guards. When a guard has died, all of this process's
// children are killed, except those that were started by StartChild or [RunChild], or before the
// first guard. The caller must call [WaitChild].
func StartChild(c *exec.Cmd) error {
	own.Lock()
	defer own.Unlock()
	if err := c.Start(); err != nil {
		return err
	}
	own.pids[c.Process.Pid] = c
	return nil
}

// WaitChild is c.Wait for a child of [StartChild].
func WaitChild(c *exec.Cmd) error {
	err := c.Wait()
	own.Lock()
	defer own.Unlock()
	if own.pids[c.Process.Pid] == c {
		delete(own.pids, c.Process.Pid)
	}
	return err
}

// RunChild is c.Run for a process that has guards; see [StartChild].
func RunChild(c *exec.Cmd) error {
	if err := StartChild(c); err != nil {
		return err
	}
	return WaitChild(c)
}
