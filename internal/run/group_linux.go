package run

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// commandAttributes: a group of its own; and should the guard itself be killed,
// the kernel kills the command, or asks one to end that has a last time for it.
func commandAttributes(c *Command) *syscall.SysProcAttr {
	last := syscall.SIGKILL
	if c.Last > 0 {
		last = syscall.SIGTERM
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
}

// adoptOrphans makes this process the parent of every descendant whose own has
// ended: none is lost sight of, and each tells by SIGCHLD when it ends.
func adoptOrphans() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// anyChild reports whether this process has children, ended or not.
func anyChild() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != unix.ECHILD
}

// groupPoll is how often to look whether a group is gone; 0: SIGCHLD tells.
const groupPoll = 0

// strays are the descendants of pid that are not in the given process group.
func strays(pid, group int) []int {
	var found []int
	for _, child := range children(pid) {
		if id, err := syscall.Getpgid(child); err == nil && id != group {
			found = append(found, child)
		}
		found = append(found, strays(child, group)...)
	}
	return found
}

// children are the direct children of pid; none where the kernel does not list them.
func children(pid int) []int {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task"
	threads, _ := os.ReadDir(tasks) // gone already: no children
	var found []int
	for _, thread := range threads {
		list, _ := os.ReadFile(tasks + "/" + thread.Name() + "/children")
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}
