//go:build unix && !linux

package run

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// commandAttributes puts the command into a group of its own. Only Linux can tie it to the guard's
// life.
func commandAttributes(*Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// Self returns the path by which this program can be started again.
func Self() (string, error) { return os.Executable() }

// named does nothing here: the process has the name of its file.
func named() {}

// adoptOrphans does nothing here: orphans become children of the system's first process. They are
// still found as long as they stay in their process group.
func adoptOrphans() error { return nil }

// adoptLeft does nothing here.
func adoptLeft() error { return nil }

// groupPoll is how often to check whether a group is gone: the end of an orphan is not reported to
// this process.
const groupPoll = 5 * time.Millisecond

// groupSeen is false: processes that have left the group may still run.
const groupSeen = false

// awaitDeath is not possible here.
func awaitDeath(int) (<-chan struct{}, error) { return nil, errors.ErrUnsupported }

func seesDeaths() error { return errors.ErrUnsupported }

// look reaps processes that have ended. It cannot detect processes that have left the group.
func (g *group) look() {
	g.reapAll()
	g.over = g.ended && g.empty
}

// release does nothing here: the command was reaped.
func (g *group) release() {}

// awaitEnd calls ended when c has ended, and was reaped.
func awaitEnd(c *exec.Cmd, ended func()) {
	WaitChild(c)
	ended()
}

// buryOrphans kills the process group that an ended guard leaves behind, and returns when the group
// is empty.
func buryOrphans(group int, _ func(pid int)) {
	if group != 0 {
		buryGroup(group)
	}
}

// mayKillAll reports whether this process may signal processes of every user.
func mayKillAll() bool { return os.Geteuid() == 0 }
