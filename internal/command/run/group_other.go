//go:build unix && !linux

package run

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// commandAttributes: a group of its own. Only Linux can tie it to the guard's life.
func commandAttributes(*Command) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// adoptOrphans does nothing here: orphans go to the system's first process. They
// are still found as long as they stay in their process group.
func adoptOrphans() error { return nil }

// adoptLeft does nothing here, either.
func adoptLeft() error { return nil }

// groupPoll is how often to look whether a group is gone: the end of an orphan is
// reported to another process.
const groupPoll = 5 * time.Millisecond

// groupSeen: what has left the group may run on.
const groupSeen = false

// awaitDeath is not possible here.
func awaitDeath(int) (<-chan struct{}, error) { return nil, errors.ErrUnsupported }

func seesDeaths() error { return errors.ErrUnsupported }

// look takes in what has ended. What has left the group is out of sight.
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

// buryOrphans kills the process group that a guard which has ended leaves behind, and returns
// when it has no member.
func buryOrphans(group int, _ func(pid int)) {
	if group != 0 {
		buryGroup(group)
	}
}

// mayKillAll reports whether this process may signal those of every user.
func mayKillAll() bool { return os.Geteuid() == 0 }
