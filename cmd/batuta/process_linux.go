package main

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/batuta-dev/batuta/internal/command/cli"
)

// childAttributes make a child end with its parent, however that ends, and keep
// the terminal's interrupt from it: the parent ends it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// checkThreads refuses a start that would abort: Go ends a process that cannot start a thread.
func checkThreads() error {
	var limit unix.Rlimit
	if os.Geteuid() == 0 || unix.Getrlimit(unix.RLIMIT_NPROC, &limit) != nil || limit.Cur >= 32 {
		return nil
	}
	return cli.Exit(cli.Failed, fmt.Errorf("this user may start %d processes and threads, and an agent with its guard needs 32: raise the limit (ulimit -u)", limit.Cur))
}
