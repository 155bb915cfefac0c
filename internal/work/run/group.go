package run

import (
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// group is a command and all its descendants.
type group struct {
	id      int          // of the process group, and of the command itself
	ended   bool         // the command itself has ended, maybe before its descendants
	outcome Outcome      // how; valid once ended
	empty   bool         // the process group is known to have no member
	over    bool         // nothing of it runs
	left    []int        // running children of this process except the command: it has adopted them
	asked   map[int]bool // the processes that ask has signaled
	refused int          // a process that this process may not signal; 0: none is known
	said    *output      // its output; nil: it writes directly
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
	return &group{id: pid, asked: map[int]bool{}, said: said}, nil
}

// signal reaches every member of the process group, and the adopted processes outside of it.
func (g *group) signal(s syscall.Signal) {
	if !g.empty {
		err := g.send(-g.id, s)
		g.empty = err == syscall.ESRCH
	}
	for _, pid := range g.strays() {
		g.send(pid, s)
	}
}

// ask sends s to adopted processes outside of the process group, once to each.
func (g *group) ask(s syscall.Signal) {
	for _, pid := range g.strays() {
		if !g.asked[pid] {
			g.asked[pid] = true
			g.send(pid, s)
			g.send(pid, syscall.SIGCONT)
		}
	}
}

// send signals a process, or with a negative id a process group, and records a refusal.
func (g *group) send(id int, s syscall.Signal) error {
	err := syscall.Kill(id, s)
	if err == syscall.EPERM {
		g.refused = max(id, -id)
	}
	return err
}

// strays are the adopted processes that have left the process group.
func (g *group) strays() (found []int) {
	for _, pid := range g.left {
		if id, err := syscall.Getpgid(pid); err == nil && id != g.id {
			found = append(found, pid)
		}
	}
	return found
}

// reapAll reaps ended processes if the system does not list a process's children.
func (g *group) reapAll() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil || pid == 0:
			g.empty = g.empty || g.ended && syscall.Kill(-g.id, 0) == syscall.ESRCH
			return
		case pid == g.id && status.Signaled():
			g.ended, g.outcome = true, Outcome{Code: -1, Signal: status.Signal()}
		case pid == g.id:
			g.ended, g.outcome = true, Outcome{Code: status.ExitStatus()}
		}
	}
}

// buryGroup kills a process group of present or future children of this process, and returns when
// the group is empty.
func buryGroup(group int) {
	for syscall.Kill(-group, syscall.SIGKILL) != syscall.ESRCH {
		// A zombie of a different parent cannot be waited for.
		if _, err := syscall.Wait4(-group, nil, 0, nil); err == syscall.ECHILD {
			time.Sleep(time.Millisecond)
		}
	}
}
