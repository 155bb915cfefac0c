package run

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// group is a command and all that descends from it.
type group struct {
	id     int                // of the process group, and of the command itself
	ended  bool               // the command itself has ended
	status syscall.WaitStatus // valid once ended
	empty  bool               // nobody is left in the process group
	said   *output            // what it writes; nil: it writes by itself
}

// startGroup runs c in a process group of its own.
func startGroup(c *Command) (*group, error) {
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return nil, err
	}
	files, said := []uintptr{0, 1, 2}, (*output)(nil)
	if c.Name != "" {
		if said, err = newOutput(c.Name, &files); err != nil {
			return nil, err
		}
	}
	pid, err := syscall.ForkExec(path, c.Argv, &syscall.ProcAttr{
		Env:   c.Env,
		Files: files,
		Sys:   commandAttributes(c),
	})
	said.begun()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return &group{id: pid, said: said}, nil
}

// signal reaches everybody in the group, and those who have left it.
func (g *group) signal(s syscall.Signal) {
	if !g.empty {
		g.empty = syscall.Kill(-g.id, s) == syscall.ESRCH
	}
	for _, pid := range strays(os.Getpid(), g.id) {
		syscall.Kill(pid, s) // gone already: then it needs no signal
	}
}

// killDescendants kills all that descends from a process, as far as the system lists
// them, until it finds nobody new.
func killDescendants(pid int) {
	killed := map[int]bool{}
	for more := true; more; {
		more = false
		for _, descendant := range strays(pid, 0) {
			if !killed[descendant] {
				killed[descendant], more = true, true
				syscall.Kill(descendant, syscall.SIGKILL)
			}
		}
	}
}

// reap takes in who has ended.
func (g *group) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid == 0:
			return
		case pid == g.id:
			g.ended, g.status = true, status
		}
	}
}

// gone reports whether nobody is left.
func (g *group) gone() bool {
	if !g.ended {
		return false // its number is taken until it is reaped
	}
	if !g.empty {
		g.empty = syscall.Kill(-g.id, 0) == syscall.ESRCH
	}
	return g.empty && !anyChild()
}

// outcome is how the command itself ended.
func (g *group) outcome() Outcome {
	if g.status.Signaled() {
		return Outcome{Code: -1, Signal: g.status.Signal()}
	}
	return Outcome{Code: g.status.ExitStatus()}
}
