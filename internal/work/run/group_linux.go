package run

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// commandAttributes puts the command into a group of its own. If the guard itself is killed, the
// kernel kills the command, or sends it SIGTERM if it has a last grace period.
func commandAttributes(c *Command) *syscall.SysProcAttr {
	last := syscall.SIGKILL
	if c.Last > 0 {
		last = syscall.SIGTERM
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
}

// ownFile is the file of this program, even if another has its name by now.
const ownFile = "/proc/self/exe"

// Self returns the path by which this program can be started again. A program that replaces its
// file meanwhile, as an update does, may not understand it.
func Self() (string, error) {
	if _, err := os.Stat(ownFile); err == nil {
		return ownFile, nil
	}
	return os.Executable()
}

// named gives this process the name of its command line, instead of that of [ownFile].
func named() {
	_ = os.WriteFile("/proc/self/comm", []byte(filepath.Base(os.Args[0])), 0) // only tools such as ps show it
}

// adoptOrphans makes this process the parent of every descendant that loses its parent: none is
// lost, and SIGCHLD reports each end.
func adoptOrphans() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// adoptLeft adopts what guards leave behind. Children that this process has before it starts a
// guard are not the guards': it may have them from before an exec.
var adoptLeft = sync.OnceValue(func() error {
	own.Lock()
	defer own.Unlock()
	running, over, _ := children()
	for _, pid := range running {
		own.keep(pid)
	}
	for pid := range over {
		own.keep(pid)
	}
	return adoptOrphans()
})

// groupPoll is how often to check whether a group is gone; 0: SIGCHLD reports it.
const groupPoll = 0

// groupSeen is true: a group that is over has left no descendant.
const groupSeen = true

// seesDeaths returns why this process cannot wait for the end of a process, or nil.
func seesDeaths() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		unix.Close(fd)
	}
	return os.NewSyscallError("pidfd_open", err)
}

// awaitDeath returns a channel that is closed once this process's parent is dead.
func awaitDeath(parent int) (<-chan struct{}, error) {
	fd, err := unix.PidfdOpen(parent, 0)
	if err != nil {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if os.Getppid() != parent {
		return nil, syscall.ESRCH // it died before, and its pid may be reused
	}
	dead := make(chan struct{})
	go func() {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for {
			if n, err := unix.Poll(fds, -1); n > 0 && err == nil {
				close(dead)
				return
			}
		}
	}()
	return dead, nil
}

// look records which processes have ended, and which this process has adopted.
//
// It reads nothing below /proc of a different process: the kernel keeps such an entry, and can take
// seconds to drop it when that process is reaped. Programs such as ps read there, so an end is
// detected first, and the process is reaped later by a goroutine.
func (g *group) look() {
	running, over, err := children()
	if err != nil {
		g.reapAll()
		g.over = g.ended && g.empty && !anyChild()
		return
	}
	g.left = nil
	for _, pid := range running {
		if pid != g.id {
			g.left = append(g.left, pid)
			g.send(pid, 0) // a group may have a member that must not be signaled
		}
	}
	for pid, how := range over {
		if pid != g.id {
			reapLater(pid)
		} else if !g.ended { // its pid must stay reserved until the group is gone
			g.ended, g.outcome = true, how
		}
	}
	// When a process has ended its children are this process's, and on the same list.
	g.empty = g.ended && len(g.left) == 0
	g.over = g.empty
}

// anyChild reports whether this process has children, including zombies.
func anyChild() bool {
	err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err != unix.ECHILD
}

// release reaps a command that is gone, which frees its pid.
func (g *group) release() { reapLater(g.id) }

// exited is the kernel's record of the end of a child, after the union's alignment.
type exited struct {
	_        [3]int32
	_        [0]uintptr
	pid, uid int32
	status   int32
	_        [100]byte
}

// ended reports whether a child has ended, and how. It leaves the child to be reaped.
func ended(pid int) (how Outcome, over bool) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return Outcome{Code: -1}, true // it is being reaped
		}
		break
	}
	if info.Signo == 0 {
		return Outcome{}, false
	}
	status := int((*exited)(unsafe.Pointer(&info)).status)
	if info.Code == cldExited {
		return Outcome{Code: status}, true
	}
	return Outcome{Code: -1, Signal: syscall.Signal(status)}, true
}

const cldExited = 1 // CLD_EXITED: status is an exit code, and otherwise a signal

// awaitEnd calls ended when c has ended, and then reaps it, which can take seconds.
func awaitEnd(c *exec.Cmd, ended func()) {
	for unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	ended()
	WaitChild(c)
}

// reaping are the processes that are being reaped.
var reaping = struct {
	sync.Mutex
	pids map[int]bool
	at   chan struct{} // bounds how many threads wait for the kernel
}{pids: map[int]bool{}, at: make(chan struct{}, 8)}

// reapLater reaps an ended child without making its caller wait.
func reapLater(pid int) {
	reaping.Lock()
	defer reaping.Unlock()
	if reaping.pids[pid] {
		return
	}
	reaping.pids[pid] = true
	go func() {
		reaping.at <- struct{}{}
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
		<-reaping.at
		reaping.Lock()
		defer reaping.Unlock()
		delete(reaping.pids, pid)
	}()
}

// children returns the direct children of this process: those that run, and the outcome of those
// that have ended. An error: the kernel does not list them.
//
// It repeats until the list is the same before and after it checked which have ended. So the list
// includes the children of a process that has ended, for they are this process's by then. It also
// includes a child that the kernel skips because the child before it is being reaped: that is gone
// when the list is read again.
func children() (running []int, over map[int]Outcome, err error) {
	list, err := childrenNow()
	for err == nil {
		running, over = nil, map[int]Outcome{}
		for _, pid := range list {
			if how, has := ended(pid); has {
				over[pid] = how
			} else {
				running = append(running, pid)
			}
		}
		before := list
		if list, err = childrenNow(); slices.Equal(before, list) {
			break
		}
	}
	return running, over, err
}

func childrenNow() ([]int, error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	found, listed := []int{}, false
	for _, thread := range threads {
		list, err := os.ReadFile("/proc/self/task/" + thread.Name() + "/children")
		listed = listed || err == nil // a thread may have ended
		for _, field := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(field); err == nil {
				found = append(found, child)
			}
		}
	}
	if !listed {
		return nil, syscall.ENOTSUP
	}
	slices.Sort(found)
	return found, nil
}

// buryOrphans kills what an ended guard leaves behind, and returns when nothing of it runs. That is
// everything that this process has adopted, and the process group of that guard's command (0: not
// known). It calls refused for each process that it may not kill.
func buryOrphans(group int, refused func(pid int)) {
	reported := map[int]bool{}
	for wait := time.Millisecond; ; wait = min(2*wait, maxWait) {
		left, err := orphans()
		if err != nil && group != 0 {
			buryGroup(group)
		}
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			if syscall.Kill(pid, syscall.SIGKILL) == syscall.EPERM && !reported[pid] {
				reported[pid] = true
				refused(pid)
			}
		}
		time.Sleep(wait)
	}
}

// maxWait is the longest time between two checks whether killed processes have ended: a process may
// be in an uninterruptible system call, or belong to a different user.
const maxWait = 100 * time.Millisecond

// orphans returns the running children that this process has adopted and not started.
func orphans() (found []int, err error) {
	own.Lock()
	defer own.Unlock()
	running, over, err := children()
	for _, pid := range running {
		if own.pids[pid] == nil {
			found = append(found, pid)
		}
	}
	for pid := range over {
		if own.pids[pid] == nil {
			reapLater(pid)
		}
	}
	return found, err
}

// mayKillAll reports whether this process may signal processes of every user.
func mayKillAll() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_KILL) != 0
}
