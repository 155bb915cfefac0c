//go:build unix && !linux

package run

import (
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

// anyChild is not asked here: who has left the group is out of sight.
func anyChild() bool { return false }

// groupPoll is how often to look whether a group is gone: the end of an orphan is
// told to another process.
const groupPoll = 5 * time.Millisecond

// strays cannot be found here.
func strays(pid, group int) []int { return nil }
